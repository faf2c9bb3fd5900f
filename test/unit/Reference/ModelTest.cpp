//===- ModelTest.cpp - Whole models against the golden values -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// test/golden/README.md explains the golden names and their noise: they are float values, this reference is double.
#include "TestSupport.h"
#include "lib/Reference/ModelReference.h"
#include "lib/Reference/Safetensors.h"

#include <cstdlib>
#include <memory>
#include <numeric>

using namespace k3::ref;
using namespace k3::ref::test;

using Ints = std::vector<std::int32_t>;

namespace {
constexpr double logitTolerance = 1e-4;  // absolute
constexpr double hiddenTolerance = 1e-5; // relative to the largest value of the tensor
constexpr double stateTolerance = 4e-6;  // likewise; tells a latent eps of 1e-6 (noise 2.4e-6) from 1e-5 (5.8e-6)
constexpr double marginOfNoise = 1e-5;   // below it a different expert is rounding
constexpr double lossTolerance = 1e-4;   // nats

class Golden : public ::testing::TestWithParam<const char *> {
protected:
  Checkpoint model;
  Tensors golden;
  std::string detail; // prefix of layer values, states and router values

  void SetUp() override {
    std::string name = GetParam(), source = K3_SOURCE_DIR;
    ASSERT_EQ(readCheckpoint(source + "/models/" + name, model), "");
    ASSERT_EQ(readSafetensors(source + "/test/golden/" + name + ".safetensors", golden), "");
    detail = golden.count("ref.p37.final_in") ? "ref." : "";
  }

  bool has(const std::string &name) const { return golden.count(name) != 0; }
  const Tensor &tensor(const std::string &name) const {
    auto it = golden.find(name);
    require(it != golden.end(), ("no golden tensor " + name).c_str());
    return it->second;
  }
  std::vector<float> floats(const std::string &name) const { return tensor(name).floats(); }
  Ints ints(const std::string &name) const { return tensor(name).ints(); }

  Vec logitsOf(IntView tokens, State &state, Trace *trace = nullptr) const {
    return forward(model.config, model.weights, tokens, state, trace);
  }

  void expectStates(const std::string &prompt, const State &state) const;
  void expectRouter(const std::string &prompt, const Trace &trace) const;
  void expectGreedy(const std::string &prompt, Vec logits, State state) const;
};
} // namespace

static Index argmax(View x) {
  Index best = 0;
  for (Index i = 1; i < x.size(); ++i)
    if (x[i] > x[best])
      best = i;
  return best;
}

static View lastRow(const Vec &logits, Index vocab) {
  return View(logits).slice(static_cast<Index>(logits.size()) - vocab, vocab);
}

void Golden::expectStates(const std::string &prompt, const State &state) const {
  const Config &c = model.config;
  for (Index layer = 0; layer < c.layers; ++layer) {
    std::string p = detail + prompt + ".state." + std::to_string(layer) + ".";
    const LayerState &s = state.layers[layer];
    if (c.kdaLayers.count(layer)) {
      Vec keyFirst; // golden S is [H, K, V]
      for (Index h = 0; h < c.kdaHeads; ++h)
        for (Index i = 0; i < c.kdaDim; ++i)
          for (Index j = 0; j < c.kdaDim; ++j)
            keyFirst.push_back(s.kda[(h * c.kdaDim + j) * c.kdaDim + i]);
      EXPECT_LT(relativeDifference(keyFirst, floats(p + "kda.S")), stateTolerance) << p;
      EXPECT_LT(relativeDifference(s.qConv, floats(p + "kda.conv_q")), stateTolerance) << p;
      EXPECT_LT(relativeDifference(s.kConv, floats(p + "kda.conv_k")), stateTolerance) << p;
      EXPECT_LT(relativeDifference(s.vConv, floats(p + "kda.conv_v")), stateTolerance) << p;
      continue;
    }
    Vec latent, rope;
    for (Index t = 0; t < state.length; ++t) {
      auto row = s.cache.begin() + t * (c.kvLora + c.rope);
      latent.insert(latent.end(), row, row + c.kvLora);
      rope.insert(rope.end(), row + c.kvLora, row + c.kvLora + c.rope);
    }
    EXPECT_LT(relativeDifference(latent, floats(p + "mla.c")), stateTolerance) << p;
    EXPECT_LT(relativeDifference(rope, floats(p + "mla.r")), stateTolerance) << p;
  }
}

void Golden::expectRouter(const std::string &prompt, const Trace &trace) const {
  Index k = model.config.router.topK, compared = 0;
  for (Index layer = model.config.denseLayers; layer < model.config.layers; ++layer) {
    std::string name = "layers." + std::to_string(layer) + ".", p = detail + prompt + "." + name;
    Ints ids = ints(p + "router_ids");
    std::vector<float> weights = floats(p + "router_weights"), margin = floats(p + "router_margin");
    const Ints &actualIds = trace.ids.at(name + "router_ids");
    const Vec &actualWeights = trace.values.at(name + "router_weights");
    ASSERT_EQ(actualIds.size(), ids.size()) << p;
    EXPECT_LT(maxDifference(trace.values.at(name + "router_margin"), margin), 1e-5) << p;
    for (std::size_t t = 0; t < margin.size(); ++t) {
      if (margin[t] <= marginOfNoise)
        continue;
      for (Index i = t * k; i < Index(t + 1) * k; ++i, ++compared) {
        EXPECT_EQ(actualIds[i], ids[i]) << p << " token " << t;
        EXPECT_NEAR(actualWeights[i], weights[i], 1e-5) << p << " token " << t;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

void Golden::expectGreedy(const std::string &prompt, Vec logits, State state) const {
  Ints expected = ints(prompt + ".greedy"), actual;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    actual.push_back(static_cast<std::int32_t>(argmax(lastRow(logits, model.config.vocab))));
    if (i + 1 < expected.size())
      logits = logitsOf(Ints{actual.back()}, state);
  }
  EXPECT_EQ(actual, expected);
}

TEST_P(Golden, OneToken) {
  State state = initialState(model.config);
  Trace trace;
  Vec logits = logitsOf(ints("p1.input_ids"), state, &trace);
  EXPECT_LT(maxDifference(logits, floats("p1.logits")), logitTolerance);
  expectRouter("p1", trace);
  expectStates("p1", state);
  expectGreedy("p1", logits, state);
}

TEST_P(Golden, ThirtySevenTokensOneByOne) {
  const Config &c = model.config;
  Ints tokens = ints("p37.input_ids");
  State state = initialState(c);
  Trace trace;
  Vec logits;
  for (std::int32_t token : tokens) {
    Vec row = logitsOf(Ints{token}, state, &trace);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  EXPECT_LT(maxDifference(logits, floats("p37.logits")), logitTolerance);

  Index compared = 0;
  for (auto &[name, values] : trace.values) {
    std::string stored = detail + "p37." + name;
    if (name.find("router") != std::string::npos || !has(stored))
      continue;
    EXPECT_LT(relativeDifference(values, floats(stored)), hiddenTolerance) << name;
    ++compared;
  }
  EXPECT_GE(compared, 5 * c.layers + 1); // five values a layer and at least final_in

  // Where another implementation's hidden states are stored: the input of every layer, then the final norm.
  for (Index i = 0; has("p37.hidden_states." + std::to_string(i)); ++i) {
    std::string name = i == c.layers ? "final_norm" : "layers." + std::to_string(i) + ".attn_in";
    EXPECT_LT(relativeDifference(trace.values.at(name), floats("p37.hidden_states." + std::to_string(i))),
              hiddenTolerance)
        << name;
  }
  expectRouter("p37", trace);
  expectStates("p37", state);
  expectGreedy("p37", logits, state);
}

TEST_P(Golden, TwoHundredTokensAtOnce) {
  const Config &c = model.config;
  State state = initialState(c);
  Trace trace;
  Vec logits = logitsOf(ints("p200.input_ids"), state, &trace);
  Ints positions(200);
  std::iota(positions.begin(), positions.end(), 0);
  if (has("p200.logit_positions"))
    positions = ints("p200.logit_positions");
  Vec chosen;
  for (std::int32_t t : positions)
    chosen.insert(chosen.end(), logits.begin() + t * c.vocab, logits.begin() + (t + 1) * c.vocab);
  EXPECT_LT(maxDifference(chosen, floats("p200.logits")), logitTolerance);
  if (has("p200.argmax")) {
    Ints expected = ints("p200.argmax");
    for (Index t = 0; t < 200; ++t)
      EXPECT_EQ(argmax(View(logits).slice(t * c.vocab, c.vocab)), expected[t]) << t;
  }
  expectRouter("p200", trace);
  expectStates("p200", state);
  expectGreedy("p200", logits, state);
}

// The first tokens only, to bound the time; K3_WHOLE_LOSS=1 in the environment takes all of them.
TEST_P(Golden, HeldOutLoss) {
  const Config &c = model.config;
  Ints tokens = ints("val.input_ids");
  std::vector<float> expected = floats("val.loss_per_token");
  bool whole = std::getenv("K3_WHOLE_LOSS") != nullptr;
  Index count = whole ? static_cast<Index>(expected.size()) : 150;
  State state = initialState(c);
  double sum = 0, expectedSum = 0;
  for (Index begin = 0; begin < count; begin += 64) {
    Index end = std::min(begin + 64, count);
    Vec logits = logitsOf(Ints(tokens.begin() + begin, tokens.begin() + end), state);
    for (Index t = begin; t < end; ++t) {
      View row = View(logits).slice((t - begin) * c.vocab, c.vocab);
      double top = row[argmax(row)], total = 0;
      for (Index i = 0; i < c.vocab; ++i)
        total += std::exp(row[i] - top);
      double loss = top + std::log(total) - row[tokens[t + 1]];
      EXPECT_NEAR(loss, expected[t], lossTolerance) << t;
      sum += loss;
      expectedSum += expected[t];
    }
  }
  EXPECT_NEAR(sum / count, expectedSum / count, lossTolerance / 10);
  if (whole)
    EXPECT_NEAR(sum / count, floats("val.loss")[0], lossTolerance / 10);
}

TEST_P(Golden, WindowsDoNotChangeTheResult) { // public faults N11 to N13
  Ints tokens = ints("p37.input_ids");
  State whole = initialState(model.config);
  Vec expected = logitsOf(tokens, whole);
  for (Index window : {7, 16, 36}) {
    State state = initialState(model.config);
    Vec logits;
    for (Index begin = 0; begin < 37; begin += window) {
      Index end = std::min<Index>(begin + window, 37);
      Vec part = logitsOf(Ints(tokens.begin() + begin, tokens.begin() + end), state);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    EXPECT_LT(maxDifference(logits, expected), 1e-10) << window;
    for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
      EXPECT_LT(maxDifference(state.layers[layer].kda, whole.layers[layer].kda), 1e-12);
      EXPECT_LT(maxDifference(state.layers[layer].cache, whole.layers[layer].cache), 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::Values("k3-nano", "kimi-linear-nano"), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

namespace {
/// A model of any depth with tiny random layers, all KDA with a dense MLP.
struct TinyModel {
  Config c;
  ModelWeights w;
  std::map<std::string, Vec> storage;

  TinyModel(Index layers, Index block) {
    c.layers = layers;
    c.hidden = 4;
    c.vocab = 8;
    c.attnResBlock = block;
    c.kdaHeads = 1;
    c.kdaDim = 4;
    c.taps = 4;
    c.gateLowerBound = -5.0;
    c.denseLayers = layers;
    c.denseWidth = 4;
    Random random(3);
    auto make = [&](const std::string &name, Index size) -> View { return storage[name] = random.normal(size, 0.5); };
    w.embed = make("embed", 32);
    w.norm = make("norm", 4);
    w.lmHead = make("lmHead", 32);
    w.outputResNorm = make("outputResNorm", 4);
    w.outputResProj = make("outputResProj", 4);
    for (Index i = 0; i < layers; ++i) {
      c.kdaLayers.insert(i);
      std::string p = std::to_string(i) + ".";
      LayerWeights l;
      for (View *v : {&l.inputNorm, &l.postNorm, &l.attnResNorm, &l.attnResProj, &l.mlpResNorm, &l.mlpResProj,
                      &l.kda.beta, &l.kda.dtBias, &l.kda.oNorm})
        *v = make(p + std::to_string(storage.size()), 4);
      for (View *v : {&l.kda.q, &l.kda.k, &l.kda.v, &l.kda.o, &l.kda.qConv, &l.kda.kConv, &l.kda.vConv,
                      &l.kda.forget.full, &l.kda.outputGate.full, &l.mlp.gate, &l.mlp.up, &l.mlp.down})
        *v = make(p + std::to_string(storage.size()), 16);
      w.layers.push_back(l);
    }
  }
};
} // namespace

TEST(AttnResSchedule, NinetyThreeLayersInBlocksOfTwelve) { // public fault R02
  TinyModel model(93, 12);
  State state = initialState(model.c);
  Trace trace;
  forward(model.c, model.w, Ints{5}, state, &trace);
  auto count = [&](const std::string &name) { return trace.ids.at(name).at(0); };
  EXPECT_EQ(count("layers.0.attn_sources"), 1);
  EXPECT_EQ(trace.values["layers.0.attn_in"], trace.values["embed"]);
  EXPECT_EQ(count("layers.0.mlp_sources"), 2);
  EXPECT_EQ(count("layers.1.attn_sources"), 2);
  EXPECT_EQ(count("layers.11.mlp_sources"), 2);
  EXPECT_EQ(count("layers.12.attn_sources"), 2);
  EXPECT_EQ(count("layers.12.mlp_sources"), 3);
  EXPECT_EQ(count("layers.84.attn_sources"), 8);
  EXPECT_EQ(count("layers.84.mlp_sources"), 9);
  EXPECT_EQ(count("layers.92.mlp_sources"), 9);
  EXPECT_EQ(count("final_sources"), 9);
}

TEST(AttnResSchedule, BlocksOfOneLayerAreFullAttnRes) {
  TinyModel model(6, 1);
  State state = initialState(model.c);
  Trace trace;
  forward(model.c, model.w, Ints{5}, state, &trace);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(trace.ids["layers." + std::to_string(i) + ".attn_sources"], Ints{i + 1});
    EXPECT_EQ(trace.ids["layers." + std::to_string(i) + ".mlp_sources"], Ints{i + 2});
    std::string p = "layers." + std::to_string(i) + "."; // the sum restarts in every layer
    Vec sum = trace.values[p + "attn_out"];
    for (Index j = 0; j < 4; ++j)
      sum[j] += trace.values[p + "mlp_out"][j];
    EXPECT_EQ(trace.values[p + "out"], sum);
  }
}

TEST(AttnResSchedule, WithoutBlocksTheResidualIsPlain) {
  TinyModel model(3, 0);
  State state = initialState(model.c);
  Trace trace;
  forward(model.c, model.w, Ints{5}, state, &trace);
  Vec sum = trace.values["embed"];
  for (int i = 0; i < 3; ++i)
    for (const char *part : {"attn_out", "mlp_out"})
      for (Index j = 0; j < 4; ++j)
        sum[j] += trace.values["layers." + std::to_string(i) + "." + part][j];
  EXPECT_LT(maxDifference(trace.values["final_in"], sum), 1e-14);
}

TEST(ReadCheckpoint, SaysWhatIsWrong) {
  Checkpoint model;
  EXPECT_EQ(readCheckpoint("no-such-directory", model), "no-such-directory/config.json: not a JSON object");
  Tensors tensors;
  EXPECT_EQ(readSafetensors("no-such-file", tensors), "no-such-file: cannot open");
  std::string text = std::string(K3_SOURCE_DIR) + "/test/golden/README.md";
  EXPECT_EQ(readSafetensors(text, tensors), text + ": shorter than its header");
}
