//===- CompiledModelTest.cpp - compiled models, however they are fed ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Safetensors.h"
#include "runtime/include/k3rt/k3rt.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

using Tokens = std::vector<std::int32_t>;

/// Both shipped models, compiled once for this machine into a folder that goes away at the end.
class Artifacts : public ::testing::Environment {
public:
  void SetUp() override {
    folder() = std::filesystem::temp_directory_path() / ("k3-compiled-model-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder());
    for (const char *model : {"k3-nano", "kimi-linear-nano"}) {
      std::string command = K3_BINARY_DIR "/bin/k3-compile " K3_SOURCE_DIR "/models/" + std::string(model) + " -o " +
                            path(model) + " > /dev/null";
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder()); }
  static std::string path(const std::string &model) { return folder() / (model + ".k3a"); }

private:
  static std::filesystem::path &folder() {
    static std::filesystem::path value;
    return value;
  }
};
const auto *artifacts = ::testing::AddGlobalTestEnvironment(new Artifacts);

class Engine {
public:
  explicit Engine(const std::string &model, std::uint32_t window = 0) {
    k3rt_engine_options options;
    k3rt_engine_options_init(&options);
    options.prefill_window = window;
    options.poison = 1;
    char message[512] = "";
    EXPECT_EQ(k3rt_engine_open(Artifacts::path(model).c_str(), 0, &options, &engine, message, sizeof message), K3RT_OK)
        << message;
  }
  ~Engine() { k3rt_engine_close(engine); }

  k3rt_sequence create() {
    k3rt_sequence sequence = 0;
    EXPECT_EQ(k3rt_sequence_create(engine, &sequence), K3RT_OK);
    return sequence;
  }
  void free(k3rt_sequence sequence) { EXPECT_EQ(k3rt_sequence_free(engine, sequence), K3RT_OK); }

  /// Logits after the last token of each row.
  std::vector<std::vector<float>> step(const std::vector<std::pair<k3rt_sequence, Tokens>> &input) {
    std::vector<k3rt_batch_row> rows;
    for (const auto &[sequence, tokens] : input)
      rows.push_back({sequence, tokens.data(), tokens.size(), 0});
    k3rt_batch batch{rows.data(), static_cast<std::uint32_t>(rows.size())};
    k3rt_step_result result{};
    EXPECT_EQ(k3rt_step(engine, &batch, &result), K3RT_OK) << k3rt_last_error(engine);
    std::vector<std::vector<float>> logits;
    for (std::size_t i = 0; i < input.size(); ++i) {
      const float *first = result.logits + result.first_row[i] * result.vocab_size;
      logits.emplace_back(first, first + (input[i].second.empty() ? 0 : result.vocab_size));
    }
    return logits;
  }

  /// Every state of every layer, one after the other.
  std::vector<float> state(k3rt_sequence sequence) {
    k3rt_model_info info{};
    info.size = sizeof info;
    EXPECT_EQ(k3rt_engine_info(engine, &info), K3RT_OK);
    std::vector<float> all;
    for (std::uint32_t layer = 0; layer < info.num_layers; ++layer)
      for (const char *name : {"kda", "conv_q", "conv_k", "conv_v", "kv"}) {
        std::uint64_t count = 0;
        if (k3rt_sequence_read_state(engine, sequence, layer, name, nullptr, &count) != K3RT_OK)
          continue; // this layer has no such state
        std::size_t start = all.size();
        all.resize(start + count);
        EXPECT_EQ(k3rt_sequence_read_state(engine, sequence, layer, name, all.data() + start, &count), K3RT_OK);
      }
    return all;
  }

  k3rt_engine *engine = nullptr;
};

double maxDifference(const std::vector<float> &a, const std::vector<float> &b) {
  if (a.size() != b.size() || a.empty())
    return std::nan("");
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return std::nan("");
    most = std::max(most, std::abs(double(a[i]) - b[i]));
  }
  return most;
}

// Cutting a prompt elsewhere moves the chunk boundaries of KDA and so only the rounding of f32 sums: golden f32 runs
// differ from f64 by 2e-5 in logits of up to 21.6.
constexpr double tolerance = 5e-5;

class CompiledModel : public ::testing::TestWithParam<const char *> {
protected:
  Tokens prompt(const std::string &name) {
    k3::ref::Tensors golden;
    std::string file = std::string(K3_SOURCE_DIR "/test/golden/") + GetParam() + ".safetensors";
    EXPECT_EQ(k3::ref::readSafetensors(file, golden), "");
    return golden.at(name + ".input_ids").ints();
  }
};

TEST_P(CompiledModel, WindowsOfAnySizeGiveTheSameStateAndLogits) {
  Tokens tokens = prompt("p200");
  std::vector<float> logits, state;
  for (std::uint32_t window : {0u, 1u, 7u, 16u, 64u}) {
    Engine engine(GetParam(), window);
    k3rt_sequence sequence = engine.create();
    std::vector<float> last = engine.step({{sequence, tokens}})[0], now = engine.state(sequence);
    if (window == 0) {
      logits = last;
      state = now;
      continue;
    }
    EXPECT_LE(maxDifference(last, logits), tolerance) << "windows of " << window;
    EXPECT_LE(maxDifference(now, state), tolerance) << "windows of " << window;
  }
}

TEST_P(CompiledModel, SplitsAtEveryPositionGiveTheSameStateAndLogits) {
  Tokens tokens = prompt("p37");
  Engine engine(GetParam());
  k3rt_sequence whole = engine.create();
  std::vector<float> logits = engine.step({{whole, tokens}})[0], state = engine.state(whole);
  for (std::size_t split = 1; split < tokens.size(); ++split) {
    k3rt_sequence sequence = engine.create();
    engine.step({{sequence, Tokens(tokens.begin(), tokens.begin() + split)}});
    std::vector<float> last = engine.step({{sequence, Tokens(tokens.begin() + split, tokens.end())}})[0];
    EXPECT_LE(maxDifference(last, logits), tolerance) << "split at " << split;
    EXPECT_LE(maxDifference(engine.state(sequence), state), tolerance) << "split at " << split;
    engine.free(sequence);
  }
}

TEST_P(CompiledModel, SequencesInOneBatchDoNotSeeEachOther) {
  Tokens tokens = prompt("p200");
  Tokens first(tokens.begin(), tokens.begin() + 37), second(tokens.begin() + 37, tokens.begin() + 100),
      third(tokens.begin() + 100, tokens.begin() + 101);
  Engine engine(GetParam());
  std::vector<std::vector<float>> alone, states;
  for (const Tokens &input : {first, second, third}) {
    k3rt_sequence sequence = engine.create();
    alone.push_back(engine.step({{sequence, input}})[0]);
    states.push_back(engine.state(sequence));
    engine.free(sequence);
  }
  k3rt_sequence a = engine.create(), b = engine.create(), c = engine.create();
  auto together = engine.step({{a, first}, {b, second}, {c, third}});
  std::size_t i = 0;
  for (k3rt_sequence sequence : {a, b, c}) {
    EXPECT_LE(maxDifference(together[i], alone[i]), tolerance) << "sequence " << i;
    EXPECT_LE(maxDifference(engine.state(sequence), states[i]), tolerance) << "sequence " << i;
    ++i;
  }
}

TEST_P(CompiledModel, ASnapshotBringsBackTheStateToTheBit) {
  Tokens tokens = prompt("p37");
  Engine engine(GetParam());
  k3rt_sequence sequence = engine.create();
  engine.step({{sequence, Tokens(tokens.begin(), tokens.begin() + 20)}});
  std::vector<float> before = engine.state(sequence);
  k3rt_snapshot snapshot = 0;
  ASSERT_EQ(k3rt_sequence_snapshot(engine.engine, sequence, &snapshot), K3RT_OK);
  Tokens rest(tokens.begin() + 20, tokens.end());
  std::vector<float> logits = engine.step({{sequence, rest}})[0];
  ASSERT_EQ(k3rt_sequence_restore(engine.engine, sequence, snapshot), K3RT_OK);
  EXPECT_TRUE(engine.state(sequence) == before);
  EXPECT_TRUE(engine.step({{sequence, rest}})[0] == logits);
}

INSTANTIATE_TEST_SUITE_P(Models, CompiledModel, ::testing::Values("k3-nano", "kimi-linear-nano"),
                         [](const auto &info) { return std::string(info.param) == "k3-nano" ? "K3" : "KimiLinear"; });

} // namespace
