//===- FixtureModelTest.cpp - compiled layers on another implementation's values ===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A model directory is written whose layers hold the weights of the fixtures, all other weights being zero; k3-compile
// makes an artifact of it, and the runtime runs that. The inputs of a fixture are put into the residual stream while
// the step is traced: the layer before is done then, and the layer itself has not begun.
//
//===----------------------------------------------------------------------===//
#include "frontend/TensorPlan.h"
#include "runtime/include/k3rt/k3rt.h"
#include "test/unit/Frontend/TestSupport.h"
#include "test/unit/Reference/TestSupport.h"
#include "test/unit/Support/Fixtures.h"

#include <functional>

namespace {

using namespace k3::test;
using k3::frontend::ModelConfig;
using k3::frontend::TensorPlan;
using k3::ref::test::relativeDifference;
using Values = std::vector<double>;
using Tokens = std::vector<std::int32_t>;

/// Layers 0 and 3 push a snapshot. Layer 2 has the weights of the fixture "moe"; layer 4, which sees two snapshots and
/// the partial sum as the fixture does, those of "layer_kda".
constexpr int moeLayer = 2, kdaLayer = 4;
constexpr std::int64_t hidden = 128;

/// The shipped K3 model's config with the sizes that the fixtures have.
Json makeConfig() {
  Json config = Json::parse(slurp(sourcePath("models/k3-nano/config.json")));
  Json &text = config["text_config"];
  text.erase("quantization_config");
  config["dtype"] = text["dtype"] = "float32";
  text.update(Json{{"num_hidden_layers", 6}, {"hidden_size", hidden}, {"attn_res_block_size", 3}, {"num_experts", 8},
                   {"num_experts_per_token", 2}, {"moe_intermediate_size", 48}, {"routed_expert_hidden_size", 64},
                   {"num_shared_experts", 2}});
  Json &linear = text["linear_attn_config"];
  linear["kda_layers"] = {1, 2, 3, 4, 5};
  linear["full_attn_layers"] = {6};
  linear["num_heads"] = 4;
  linear["head_dim"] = 16;
  return config;
}

/// What the fixtures call a tensor of the layer; `expert`: -1 for none. Empty: they have none of that kind.
std::string fixtureName(bool wholeLayer, std::string key, std::int64_t expert) {
  auto replace = [&](const std::string &from, const std::string &to) {
    if (std::size_t at = key.find(from); at != std::string::npos)
      key.replace(at, from.size(), to);
  };
  if (!wholeLayer && key.rfind("block_sparse_moe.", 0) != 0)
    return "";
  replace("block_sparse_moe.", wholeLayer ? "mlp." : "");
  replace("gate.e_score", "e_score");
  replace("routed_expert_", "");
  replace("down_proj.weight", "down.weight");
  replace("up_proj.weight", "up.weight");
  replace("experts.w", "experts." + std::to_string(expert) + ".w");
  replace("shared_experts.gate_proj", "shared.w1");
  replace("shared_experts.up", "shared.w3");
  replace("shared_experts.down", "shared.w2");
  std::replace(key.begin(), key.end(), '.', '_');
  return key;
}

class FixtureModel : public FixtureTest {
protected:
  /// Compiles the model with the weights of the open fixture in layer `layer`.
  void compile(int layer, bool wholeLayer) {
    std::filesystem::create_directories(folder.file("model"));
    for (const char *name : {"tiktoken.model", "tokenizer_config.json"})
      std::filesystem::create_symlink(sourcePath(std::string("models/k3-nano/") + name), folder.file("model/") + name);
    spill(folder.file("model/config.json"), makeConfig().dump());
    auto config = k3::frontend::readModelConfig(folder.file("model/config.json"));
    ASSERT_TRUE(config.ok()) << config.message();
    Shard shard;
    std::size_t used = 0;
    TensorPlan plan(*config);
    for (const auto &entry : plan.templates())
      for (std::int64_t at : entry.layers.empty() ? std::vector<std::int64_t>{-1} : entry.layers)
        for (std::int64_t expert = 0; expert < std::max<std::int64_t>(1, entry.numExperts); ++expert) {
          std::string name = at == layer ? fixtureName(wholeLayer, entry.key, expert) : "";
          std::vector<std::int64_t> shape = entry.shape;
          std::size_t count = 1;
          for (std::int64_t extent : shape)
            count *= extent;
          std::vector<float> data(count);
          if (has(name)) {
            Values given = values(name);
            ASSERT_EQ(given.size(), count) << name;
            std::copy(given.begin(), given.end(), data.begin());
            ++used;
          }
          shard[entry.name(at, expert)] = {"F32", shape,
                                           std::string(reinterpret_cast<const char *>(data.data()), count * 4)};
        }
    // Whatever is an array, but for inputs and outputs.
    std::size_t given = 0;
    for (const auto &[key, value] : fixture.items())
      given += value.is_object() && key.find("in") != 0 && key.find("out") != 0 && key.find("block_residual") != 0;
    // input_layernorm begins with "in", too.
    given += has("input_layernorm_weight");
    ASSERT_EQ(used, given) << "every weight of the fixture is a weight of the model";
    saveShard(folder.file("model/model.safetensors"), shard);
    std::string command =
        K3_BINARY_DIR "/bin/k3-compile " + folder.file("model") + " -o " + folder.file("model.k3a") + " > /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    char message[512] = "";
    ASSERT_EQ(k3rt_engine_open(folder.file("model.k3a").c_str(), 0, nullptr, &engine, message, sizeof message), K3RT_OK)
        << message;
    ASSERT_EQ(k3rt_sequence_create(engine, &sequence), K3RT_OK);
  }
  ~FixtureModel() override { k3rt_engine_close(engine); }

  /// One step of `count` tokens. `observe` is called for every buffer that is written.
  void step(std::int64_t count, std::function<void(const k3rt_trace_event &)> observe) {
    auto call = [](void *user, const k3rt_trace_event *event) {
      (*static_cast<std::function<void(const k3rt_trace_event &)> *>(user))(*event);
    };
    ASSERT_EQ(k3rt_set_trace(engine, call, &observe), K3RT_OK);
    Tokens tokens(count, 5);
    k3rt_batch_row row{sequence, tokens.data(), tokens.size(), 0};
    k3rt_batch batch{&row, 1};
    k3rt_step_result result{};
    ASSERT_EQ(k3rt_step(engine, &batch, &result), K3RT_OK) << k3rt_last_error(engine);
  }

  static bool isEndOfLayer(const k3rt_trace_event &event, int layer) {
    return event.layer == layer && std::string(event.buffer) == "out";
  }
  /// Buffers are the runtime's own memory, which the layers that follow read.
  static float *memory(const k3rt_trace_event &event) { return static_cast<float *>(const_cast<void *>(event.data)); }
  static Values read(const k3rt_trace_event &event) {
    const float *data = memory(event);
    return Values(data, data + event.shape[0] * event.shape[1]);
  }

  TempDir folder;
  k3rt_engine *engine = nullptr;
  k3rt_sequence sequence = 0;
};

constexpr double tolerance = 5e-6; // relative; float on both sides

} // namespace

TEST_F(FixtureModel, WholeKdaLayer) {
  OPEN_OR_SKIP("layer_kda");
  ASSERT_NO_FATAL_FAILURE(compile(kdaLayer, /*wholeLayer=*/true));
  std::int64_t T = dim("in", 1), snapshots = dim("block_residual_in", 1);
  ASSERT_EQ(snapshots, 2);
  Values in = values("in"), out = values("out");
  Values before = slotMajor(values("block_residual_in"), T, snapshots, hidden);
  // The tokens from `first` on; the states are those after the tokens before.
  auto run = [&](std::int64_t first, std::int64_t count) {
    Values got;
    step(count, [&](const k3rt_trace_event &event) {
      if (isEndOfLayer(event, kdaLayer - 1)) {
        float *partial = memory(event);
        auto put = [&](const Values &from, std::int64_t row, std::int64_t slot) {
          std::copy_n(from.begin() + row * hidden, count * hidden, partial + (slot - snapshots) * count * hidden);
        };
        for (std::int64_t slot = 0; slot < snapshots; ++slot)
          put(before, slot * T + first, slot);
        put(in, first, snapshots);
      }
      if (isEndOfLayer(event, kdaLayer))
        got = read(event);
    });
    return got;
  };
  EXPECT_LT(relativeDifference(run(0, T), out), tolerance);

  // The same by decode steps after the first token.
  ASSERT_EQ(k3rt_sequence_free(engine, sequence), K3RT_OK);
  ASSERT_EQ(k3rt_sequence_create(engine, &sequence), K3RT_OK);
  for (std::int64_t t = 0; t < T; ++t)
    EXPECT_LT(relativeDifference(run(t, 1), Values(out.begin() + t * hidden, out.begin() + (t + 1) * hidden)),
              tolerance)
        << "token " << t;
}

TEST_F(FixtureModel, LatentMoeBlock) {
  OPEN_OR_SKIP("moe");
  ASSERT_NO_FATAL_FAILURE(compile(moeLayer, /*wholeLayer=*/false));
  std::int64_t T = dim("in", 1);
  Values in = values("in"), out = values("out"), got;
  float *partial = nullptr;
  bool given = false;
  step(T, [&](const k3rt_trace_event &event) {
    if (isEndOfLayer(event, moeLayer - 1))
      partial = memory(event); // the slot is the same in both layers
    // The block's input is there; what it adds to is set to zero.
    if (event.layer == moeLayer && std::string(event.dispatch) == "attn_res.mix mlp_res_norm.weight") {
      std::copy(in.begin(), in.end(), memory(event));
      std::fill_n(partial, T * hidden, 0.0f);
      given = true;
    }
    if (isEndOfLayer(event, moeLayer))
      got = read(event);
  });
  EXPECT_TRUE(given) << "the block's input has another name";
  EXPECT_LT(relativeDifference(got, out), tolerance);
}
