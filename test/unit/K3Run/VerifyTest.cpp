//===- VerifyTest.cpp - k3-run verify -----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/K3Run/MockRuntime.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

using namespace k3run::test;

namespace {
/// Golden values written by the test: name -> (dtype, shape, bytes).
class GoldenFile {
public:
  template <typename T>
  void add(const std::string &name, const char *dtype,
           const std::vector<int64_t> &shape, const std::vector<T> &values) {
    nlohmann::json &entry = header[name];
    entry["dtype"] = dtype;
    entry["shape"] = shape;
    size_t start = data.size();
    data.append(reinterpret_cast<const char *>(values.data()),
                values.size() * sizeof(T));
    entry["data_offsets"] = {start, data.size()};
  }
  std::string write() const {
    std::string json = header.dump();
    uint64_t length = json.size();
    std::string bytes(reinterpret_cast<const char *>(&length), 8);
    return temporaryFile("golden.safetensors", bytes + json + data);
  }

private:
  nlohmann::json header = nlohmann::json::object();
  std::string data;
};

/// A model of formulas: 2 layers, layer 1 with experts, vocabulary 10.
constexpr size_t vocab = 10, hidden = 4, keys = 2, values = 3;

float logit(const std::vector<int32_t> &history, size_t id) {
  size_t sum = history.size();
  for (int32_t token : history)
    sum = sum * 7 + static_cast<size_t>(token);
  return static_cast<float>((sum + id * id * 3) % 11) / 4;
}
float hiddenValue(int layer, size_t row, size_t i) {
  return static_cast<float>(1 + layer * 100 + row * 10 + i);
}
int32_t expert(int layer, size_t row, size_t i) {
  return static_cast<int32_t>((static_cast<size_t>(layer) + row + 3 * i) % 5);
}
float stateValue(const std::string &name, uint32_t layer, size_t i) {
  return static_cast<float>(name.size() + layer + i);
}

/// What to spoil in the golden values.
struct Damage {
  double logit = 0, hidden = 0, state = 0, loss = 0;
  bool router = false, greedy = false, nanLogit = false;
  float margin = 1;
  bool onlyReference = false;
};

std::string golden(const Damage &damage) {
  GoldenFile file;
  std::vector<int64_t> tokens = {1, 5, 2};
  std::vector<int32_t> history;
  std::vector<float> logits, layer[2];
  std::vector<int32_t> ids;
  for (size_t row = 0; row < tokens.size(); ++row) {
    history.push_back(static_cast<int32_t>(tokens[row]));
    for (size_t id = 0; id < vocab; ++id)
      logits.push_back(logit(history, id));
    for (int l = 0; l < 2; ++l)
      for (size_t i = 0; i < hidden; ++i)
        layer[l].push_back(hiddenValue(l, row, i));
    // In another order than the engine's.
    ids.push_back(expert(1, row, 1));
    ids.push_back(expert(1, row, 0));
  }
  logits[13] += static_cast<float>(damage.logit);
  if (damage.nanLogit)
    logits[13] = NAN;
  layer[1][5] += static_cast<float>(damage.hidden * layer[1][5]);
  if (damage.router)
    ids[3] = 4; // was 2, next to 0
  std::string prefix = damage.onlyReference ? "ref.p3." : "p3.";
  file.add("p3.input_ids", "I64", {3}, tokens);
  file.add("p3.logits", "F32", {3, vocab}, logits);
  file.add(prefix + "layers.0.out", "F32", {3, hidden}, layer[0]);
  file.add(prefix + "layers.1.out", "F32", {3, hidden}, layer[1]);
  file.add(prefix + "layers.1.router_ids", "I32", {3, 2}, ids);
  file.add(prefix + "layers.1.router_margin", "F32", {3},
           std::vector<float>{1, damage.margin, 1});

  // One head, stored [key, value]; the engine's is [value, key].
  std::vector<float> state(keys * values);
  for (size_t k = 0; k < keys; ++k)
    for (size_t v = 0; v < values; ++v)
      state[k * values + v] = stateValue("kda", 0, v * keys + k);
  state[1] += static_cast<float>(damage.state);
  file.add(prefix + "state.0.kda.S", "F32", {1, keys, values}, state);
  file.add(prefix + "state.0.kda.conv_q", "F32", {3, 1},
           std::vector<float>{stateValue("conv_q", 0, 0),
                              stateValue("conv_q", 0, 1),
                              stateValue("conv_q", 0, 2)});
  // Cache rows of 2 + 1 values.
  std::vector<float> c, r;
  for (size_t row = 0; row < 3; ++row) {
    c.push_back(stateValue("kv", 1, row * 3));
    c.push_back(stateValue("kv", 1, row * 3 + 1));
    r.push_back(stateValue("kv", 1, row * 3 + 2));
  }
  file.add(prefix + "state.1.mla.c", "F32", {3, 2}, c);
  file.add(prefix + "state.1.mla.r", "F32", {3, 1}, r);

  std::vector<int64_t> greedy;
  for (int i = 0; i < 8; ++i) {
    size_t best = 0;
    for (size_t id = 1; id < vocab; ++id)
      if (logit(history, id) > logit(history, best))
        best = id;
    greedy.push_back(static_cast<int64_t>(best));
    history.push_back(static_cast<int32_t>(best));
  }
  if (damage.greedy)
    greedy[7] = (greedy[7] + 1) % vocab;
  file.add("p3.greedy", "I64", {8}, greedy);

  std::vector<int64_t> text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
  history.clear();
  double nats = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    history.push_back(static_cast<int32_t>(text[i]));
    double sum = 0;
    for (size_t id = 0; id < vocab; ++id)
      sum += std::exp(logit(history, id));
    nats += std::log(sum) - logit(history, static_cast<size_t>(text[i + 1]));
  }
  file.add("val.input_ids", "I64", {10}, text);
  file.add("val.loss", "F32", {},
           std::vector<float>{static_cast<float>(nats / 9 + damage.loss)});
  return file.write();
}

class Verify : public ::testing::Test {
protected:
  void SetUp() override {
    resetMock();
    mock().tokenizer.clear(); // verify works on ids
    mock().vocab = vocab;
    mock().hidden = hidden;
    mock().maxLogitRows = 2; // so that the prompt takes two steps
    mock().logits = [](const std::vector<int32_t> &history,
                       std::vector<float> &logits) {
      for (size_t id = 0; id < vocab; ++id)
        logits[id] = logit(history, id);
    };
    mock().hiddenValue = hiddenValue;
    mock().expert = expert;
    mock().stateValue = stateValue;
  }

  nlohmann::json verify(const Damage &damage, bool pass,
                        const std::string &message = "") {
    std::string file = golden(damage);
    RunResult result = run({"verify", "m.k3a", "--golden", file, "--json"});
    EXPECT_EQ(result.exitCode, pass ? 0 : 1) << result.err;
    if (pass)
      EXPECT_EQ(result.err, "");
    else
      EXPECT_EQ(result.err, "k3-run: " + file + ": " + message + "\n");
    nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_EQ(json["pass"], pass);
    return json;
  }
};

TEST_F(Verify, PassesOnEqualValues) {
  for (bool onlyReference : {false, true}) {
    Damage damage;
    damage.onlyReference = onlyReference;
    nlohmann::json json = verify(damage, true);
    EXPECT_EQ(json["max_abs_logit_error"], 0.0);
    EXPECT_EQ(json["router_mismatches"], 0);
    EXPECT_EQ(json["router_choices"], 3);
    EXPECT_EQ(json["greedy_match"], true);
    EXPECT_LT(json["loss_difference"], 1e-6);
    EXPECT_EQ(json["max_abs_state_error"], 0.0);
    ASSERT_EQ(json["layers"].size(), 2u);
    EXPECT_EQ(json["layers"][1]["layer"], 1);
    EXPECT_EQ(json["layers"][1]["rel_error"], 0.0);
  }
}

TEST_F(Verify, EachKindOfDifferenceFails) {
  Damage damage;
  damage.logit = 0.25;
  EXPECT_EQ(verify(damage, false, "logits differ by 0.25, allowed 0.0001")
                ["max_abs_logit_error"],
            0.25);
  damage = {};
  damage.nanLogit = true;
  EXPECT_TRUE(verify(damage, false, "logits differ by nan, allowed 0.0001")
                  ["max_abs_logit_error"]
                      .is_null());
  damage = {};
  damage.hidden = 1e-2;
  std::string file = golden(damage);
  RunResult result = run({"verify", "m.k3a", "--golden", file});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_NE(result.err.find("layer 1 differs by 0.00"), std::string::npos)
      << result.err;
  EXPECT_EQ(result.out.substr(0, 4), "FAIL");
  damage = {};
  damage.router = true;
  EXPECT_EQ(verify(damage, false, "1 of 3 expert choices differ")
                ["router_mismatches"],
            1);
  damage = {};
  damage.state = 0.5;
  verify(damage, false, "states differ by 0.5, allowed 5e-05");
  damage = {};
  damage.greedy = true;
  EXPECT_EQ(verify(damage, false, "greedy tokens differ")["greedy_match"],
            false);
  damage = {};
  damage.loss = 0.5;
  verify(damage, false, "loss differs by 0.5, allowed 0.0001");
}

TEST_F(Verify, OtherExpertsWithinTheMarginAreAllowed) {
  Damage damage;
  damage.router = true;
  damage.margin = 1e-6f;
  EXPECT_EQ(verify(damage, true)["router_choices"], 2);
}

TEST_F(Verify, TolerancesCanBeSet) {
  Damage damage;
  damage.logit = 0.25;
  std::string file = golden(damage);
  EXPECT_EQ(run({"verify", "m.k3a", "--golden", file,
                 "--logit-tolerance=0.3"})
                .exitCode,
            0);
}

// Where activations are bf16, single values say little.
TEST_F(Verify, JudgesRoundedActivationsByTheirMean) {
  auto judge = [&](const Damage &damage) {
    return run({"verify", "m.k3a", "--golden", golden(damage), "--json",
                "--activations", "bf16"});
  };
  Damage damage;
  damage.logit = 0.25;
  damage.hidden = damage.state = 0.1;
  damage.router = damage.greedy = true;
  RunResult result = judge(damage);
  EXPECT_EQ(result.exitCode, 0) << result.err;
  nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_NEAR(json["mean_abs_logit_error"].get<double>(), 0.25 / (3 * vocab),
              1e-7);
  EXPECT_EQ(json["likeliest"], nlohmann::json::parse(
                                   R"([{"prompt": "p3", "positions": 3, "equal": 3}])"));
  damage = {};
  damage.logit = 0.06 * 3 * vocab;
  EXPECT_NE(judge(damage).err.find("differ by 0.06 in the mean, allowed 0.05"),
            std::string::npos);
  EXPECT_EQ(run({"verify", "m.k3a", "--golden", golden(damage), "--activations", "bf16", "--mean-tolerance=0.07"}).exitCode, 0);
  damage = {};
  damage.nanLogit = true;
  EXPECT_EQ(judge(damage).exitCode, 1);
  damage = {};
  damage.loss = 0.01;
  EXPECT_NE(judge(damage).err.find("loss differs by 0.01, allowed 0.005"),
            std::string::npos);
  EXPECT_EQ(run({"verify", "m.k3a", "--golden", golden({}), "--activations",
                 "f16"})
                .exitCode,
            1);
}

/// A prompt of 80 tokens with logits at two positions, and the likeliest token of all; of `wrong` it is another one.
std::string longPrompt(size_t wrong) {
  GoldenFile file;
  std::vector<int64_t> tokens, likeliest;
  std::vector<int32_t> history;
  std::vector<float> logits;
  const std::vector<int64_t> positions = {7, 79};
  for (size_t row = 0; row < 80; ++row) {
    tokens.push_back(static_cast<int64_t>(row * row % vocab));
    history.push_back(static_cast<int32_t>(tokens.back()));
    size_t best = 0;
    for (size_t id = 0; id < vocab; ++id) {
      if (logit(history, id) > logit(history, best))
        best = id;
      if (static_cast<int64_t>(row) == positions[0] || static_cast<int64_t>(row) == positions[1])
        logits.push_back(logit(history, id));
    }
    likeliest.push_back(static_cast<int64_t>((best + (row < wrong)) % vocab));
  }
  file.add("p80.input_ids", "I64", {80}, tokens);
  file.add("p80.logits", "F32", {2, vocab}, logits);
  file.add("p80.logit_positions", "I64", {2}, positions);
  file.add("p80.argmax", "I64", {80}, likeliest);
  return file.write();
}

// 97.5% of 80 positions: two may differ.
TEST_F(Verify, ComparesTheLikeliestTokenOfAllPositions) {
  for (size_t wrong : {0, 2, 3}) {
    RunResult result = run({"verify", "m.k3a", "--golden", longPrompt(wrong), "--json", "--activations", "bf16"});
    EXPECT_EQ(result.exitCode, wrong <= 2 ? 0 : 1) << result.err;
    nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_EQ(json["likeliest"][0]["positions"], 80);
    EXPECT_EQ(json["likeliest"][0]["equal"], 80 - wrong);
    EXPECT_EQ(run({"verify", "m.k3a", "--golden", longPrompt(wrong), "--activations", "bf16", "--likeliest-share=0.95"}).exitCode,
              0);
    if (wrong > 2)
      EXPECT_NE(result.err.find("another one at 3 of 80 positions of p80"), std::string::npos) << result.err;
  }
}

// A value that is in the file but not given by the engine is not a pass.
TEST_F(Verify, MissingTraceIsAnError) {
  std::string file = golden({});
  mock().layers = 1;
  mock().experts = 3;
  RunResult result = run({"verify", "m.k3a", "--golden", file});
  EXPECT_EQ(result.exitCode, 0) << "layer 1 is not one of this model";
  mock().layers = 2;
  result = run({"verify", "m.k3a", "--golden", file});
  EXPECT_EQ(result.exitCode, 1);
  EXPECT_NE(result.err.find("did not give the expert choices of layer 1"),
            std::string::npos)
      << result.err;
}

TEST_F(Verify, BadFilesAreOneLine) {
  auto error = [](const std::string &file) {
    RunResult result = run({"verify", "m.k3a", "--golden", file});
    EXPECT_EQ(result.exitCode, 1);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
    EXPECT_NE(result.err.find(file), std::string::npos) << result.err;
    return result.err;
  };
  error("/nowhere/golden.safetensors");
  error(temporaryFile("short.safetensors", "abc"));
  GoldenFile none;
  none.add("p.input_ids", "I64", {1}, std::vector<int64_t>{1});
  EXPECT_NE(error(none.write()).find("no golden values"), std::string::npos);
  GoldenFile shape;
  shape.add("p.input_ids", "I64", {1}, std::vector<int64_t>{1});
  shape.add("p.logits", "F32", {2, 10}, std::vector<float>(20));
  EXPECT_NE(error(shape.write()).find("p.logits is [2, 10], wanted [1, 10]"),
            std::string::npos);
  GoldenFile likeliest;
  likeliest.add("p.input_ids", "I64", {1}, std::vector<int64_t>{1});
  likeliest.add("p.logits", "F32", {1, 10}, std::vector<float>(10));
  likeliest.add("p.argmax", "I64", {2}, std::vector<int64_t>{1, 2});
  EXPECT_NE(error(likeliest.write()).find("p.argmax has 2 positions of 1 tokens"), std::string::npos);
  GoldenFile ids;
  ids.add("p.input_ids", "I64", {1}, std::vector<int64_t>{10});
  ids.add("p.logits", "F32", {1, 10}, std::vector<float>(10));
  EXPECT_NE(error(ids.write()).find("has id 10, the model's vocabulary is 10"),
            std::string::npos);
  GoldenFile dtype;
  dtype.add("p.input_ids", "F32", {1}, std::vector<float>{1});
  dtype.add("p.logits", "F32", {1, 10}, std::vector<float>(10));
  EXPECT_NE(error(dtype.write()).find("is F32 with 1 dimensions, wanted I64"),
            std::string::npos);
}
} // namespace
