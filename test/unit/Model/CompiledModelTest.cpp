//===- CompiledModelTest.cpp - compiled models, however they are fed ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Model/CompiledModel.h"

#include <cmath>

using namespace k3::test;

namespace {

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
  Tokens prompt(const std::string &name) { return goldenPrompt(GetParam(), name); }
  std::string artifact() { return Artifacts::path(GetParam()); }
};

TEST_P(CompiledModel, WindowsOfAnySizeGiveTheSameStateAndLogits) {
  Tokens tokens = prompt("p200");
  std::vector<float> logits, state;
  for (std::uint32_t window : {0u, 1u, 7u, 16u, 64u}) {
    Engine engine(artifact(), [&](auto &o) { o.prefill_window = window; });
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
  Engine engine(artifact());
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
  Engine engine(artifact());
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
  Engine engine(artifact());
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
