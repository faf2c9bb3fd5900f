//===- NonFiniteTest.cpp - NaN and infinity stay where they are ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/device/HostDevice.h"
#include "runtime/src/state/StatePool.h"
#include "test/unit/Runtime/TestScheduler.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

using namespace toy;

namespace {

/// The toy model; with `broken`, the attention of layer 1 adds infinity to one
/// channel of tokens at positions 1, 4, 7, ...
std::string write(const Folder &folder, bool broken) {
  Model model = make();
  if (broken) {
    bool found = false;
    for (const auto &weight : model.index.weights)
      if (weight->is_expert_group) {
        float infinity = std::numeric_limits<float>::infinity();
        uint64_t oneExpert = hidden * sizeof(float);
        memcpy(model.weightBytes.data() + weight->range->offset() + oneExpert +
                   5 * sizeof(float),
               &infinity, sizeof(infinity));
        found = true;
      }
    EXPECT_TRUE(found);
  }
  return folder.write("model.k3a", serialize(model));
}

std::string contentOf(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class NonFiniteTest : public testing::Test {
protected:
  Folder folder;
  std::string well = write(folder, false);
  Folder brokenFolder;
  std::string broken = write(brokenFolder, true);
};

TEST_F(NonFiniteTest, NamesLayerAndToken) {
  TestEngine engine(broken);
  k3rt_sequence sequence = engine.create();
  EXPECT_EQ(engine.tryStep({{sequence, {5}}}), K3RT_OK);
  EXPECT_EQ(engine.tryStep({{sequence, {6}}}), K3RT_NON_FINITE);
  EXPECT_NE(engine.last().find("after layer 1 for the token at position 1;"),
            std::string::npos)
      << engine.last();
  EXPECT_EQ(engine.stats().non_finite_sequences, 1u);
}

// A prompt goes wrong in its first window: it is not run any further, and what
// shares its steps has the same bits as without it.
TEST_F(NonFiniteTest, StaysWithItsSequence) {
  for (bool all : {false, true}) {
    TestEngine engine(well, [](auto &o) {
      o.prefill_window = 16;
      o.max_context = 256;
    });
    k3rt_sequence before = engine.create(), sick = engine.create(),
                  after = engine.create();
    Oracle x, z;
    Tokens first = prompt(20, 1), second = prompt(30, 2), bad = prompt(60, 3);
    bad[18] = nanToken;
    EXPECT_EQ(engine.tryStep({{before, first}, {sick, bad, all}, {after, second}}),
              K3RT_NON_FINITE);
    EXPECT_NE(engine.last().find("row 1: "), std::string::npos);
    EXPECT_NE(engine.last().find("after layer 0 for the token at position 18"),
              std::string::npos)
        << engine.last();
    EXPECT_EQ(engine.rowStatus,
              (std::vector<int32_t>{K3RT_OK, K3RT_NON_FINITE, K3RT_OK}));
    EXPECT_EQ(engine.logits.front(), expected(x, first).back());
    EXPECT_EQ(engine.logits.back(), expected(z, second).back());
    ASSERT_EQ(engine.logits.size(), all ? 62u : 3u);
    Oracle y;
    std::vector<Logits> good = expected(y, slice(bad, 0, 18));
    for (size_t i = 0; all && i < 60; ++i) {
      if (i < 18)
        EXPECT_EQ(engine.logits[1 + i], good[i]);
      else
        EXPECT_TRUE(std::isnan(engine.logits[1 + i][7])) << i;
    }
    if (!all) {
      EXPECT_TRUE(std::isnan(engine.logits[1][0]));
    }
    EXPECT_EQ(engine.length(sick), 28u); // the second window: 12 of its rows
    EXPECT_EQ(engine.states(before), statesOf(x));
    EXPECT_EQ(engine.states(after), statesOf(z));
    EXPECT_EQ(engine.stats().non_finite_sequences, 1u);
  }
}

// Rows that want no logits are looked at as well.
TEST_F(NonFiniteTest, NoticedWithoutLogits) {
  TestEngine engine(well);
  k3rt_sequence sick = engine.create();
  Tokens tokens = {1, nanToken, 2};
  k3rt_batch_row row = {sick, tokens.data(), 3, -1};
  k3rt_batch batch = {&row, 1};
  k3rt_step_result result = {};
  EXPECT_EQ(k3rt_step(engine.engine, &batch, &result), K3RT_NON_FINITE);
  EXPECT_EQ(result.num_logit_rows, 0u);
  EXPECT_EQ(engine.tryStep({{sick, {1}}}), K3RT_INVALID_ARGUMENT);
}

// What a failed sequence held is overwritten before it is given back, shared
// pages apart.
TEST_F(NonFiniteTest, SlotsAndPagesAreScrubbed) {
  k3rt::Artifact artifact;
  ASSERT_TRUE(artifact.open(well, 0).ok());
  k3rt::EngineOptions options;
  options.maxSequences = 2;
  options.maxContext = 16;
  k3rt::MemoryPlan plan;
  ASSERT_TRUE(planMemory(artifact.index(), options, plan).ok());
  k3rt::ThreadPool threads;
  ASSERT_TRUE(threads.start(1).ok());
  k3rt::HostDevice device(threads);
  k3rt::StatePool pool;
  ASSERT_TRUE(pool.init(artifact.index(), plan, false, device).ok());
  k3rt::Holding holding;
  holding.slot = *pool.takeSlot();
  pool.prepareWrite(holding, 0, 12);
  std::vector<char> nan(pool.copyBytes(12), '\xff');
  pool.load(holding, 12, nan.data());
  k3rt::Holding other;
  other.slot = *pool.takeSlot();
  other.pages = pool.sharePages(holding, 1);
  pool.scrub(holding);
  for (uint32_t state = 0; state < artifact.index().states()->size(); ++state) {
    std::vector<float> values(pool.elements(state, 12));
    pool.readAsFloat(state, holding, 12, values.data());
    bool paged = artifact.index().states()->Get(state)->kind() ==
                 k3::artifact::StateKind::KvCache;
    for (size_t i = 0; i < values.size(); ++i) {
      bool shared = paged && i < size_t(4 * hidden);
      ASSERT_EQ(std::isnan(values[i]), shared) << state << " " << i;
      if (!shared) {
        ASSERT_EQ(values[i], 0);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// The trap
//===----------------------------------------------------------------------===//

TEST_F(NonFiniteTest, TrapChangesNothingElse) {
  TestEngine engine(well, [](auto &o) { o.trap_nonfinite = 1; });
  k3rt_sequence sequence = engine.create();
  Oracle oracle;
  Tokens tokens = prompt(100, 4);
  engine.step({{sequence, tokens, true}});
  EXPECT_EQ(engine.logits, expected(oracle, tokens));
  for (int32_t token : prompt(10, 5))
    ASSERT_EQ(engine.feed(sequence, {token}), oracle.next(token));
  EXPECT_EQ(engine.states(sequence), statesOf(oracle));
}

TEST_F(NonFiniteTest, TrapNamesTheDispatch) {
  for (uint32_t threads : {1, 3}) {
    TestEngine engine(broken, [&](auto &o) {
      o.trap_nonfinite = 1;
      o.threads = threads;
    });
    k3rt_sequence other = engine.create(), sick = engine.create();
    // The other sequence has one token: position 1 is the second one's.
    EXPECT_EQ(engine.tryStep({{other, {5}}, {sick, {6, 7, 8}}}),
              K3RT_NON_FINITE);
    EXPECT_NE(engine.last().find(
                  "row 1: sequence "),
              std::string::npos);
    EXPECT_NE(
        engine.last().find(
            "has NaN or infinite values after layer 1 for the token at "
            "position 1: first inf at [1, 2, 5] of 'stream', written by "
            "dispatch 'do_attend' (kernel 'attend') in layer 1; free it"),
        std::string::npos)
        << engine.last();
  }
  // Outside layers: the embedding.
  TestEngine engine(well, [](auto &o) { o.trap_nonfinite = 1; });
  EXPECT_EQ(engine.tryStep({{engine.create(), {nanToken}}}), K3RT_NON_FINITE);
  EXPECT_NE(engine.last().find("first nan at [0, 0, 0] of 'stream', written by "
                               "dispatch 'do_embed' (kernel 'embed') in no "
                               "layer"),
            std::string::npos)
      << engine.last();
}

// The dump has all that is needed to run the step again.
TEST_F(NonFiniteTest, DumpsCanBeRunAgain) {
  std::string dumps = folder.path("dumps");
  {
    TestEngine engine(broken, [&](auto &o) {
      o.trap_nonfinite = 1;
      o.trap_folder = dumps.c_str();
    });
    k3rt_sequence a = engine.create(), b = engine.create(), c = engine.create();
    engine.feed(a, {3});
    engine.feed(b, {4});
    EXPECT_EQ(engine.tryStep({{b, {}}, {a, {5, 6}}, {c, {7}}}),
              K3RT_NON_FINITE);
    EXPECT_NE(engine.last().find("; the step is in " + dumps + "/nonfinite-1"),
              std::string::npos)
        << engine.last();
    EXPECT_EQ(engine.tryStep({{b, {5}}}), K3RT_NON_FINITE); // a decode
  }
  EXPECT_EQ(contentOf(dumps + "/nonfinite-1/step.json"),
            "{\"version\": 1, \"model\": \"toy\", \"phase\": \"prefill\",\n"
            " \"first\": {\"layer\": 1, \"dispatch\": \"do_attend\", "
            "\"kernel\": \"attend\", \"buffer\": \"stream\", \"index\": [1, "
            "0, 5], \"value\": \"inf\", \"sequence\": 0},\n"
            " \"sequences\": [\n"
            "  {\"state\": \"sequence-0.k3s\", \"length\": 1, "
            "\"logit_rows\": 1, \"tokens\": [5, 6]},\n"
            "  {\"state\": null, \"length\": 0, \"logit_rows\": 1, "
            "\"tokens\": [7]}]}\n");
  EXPECT_NE(contentOf(dumps + "/nonfinite-2/step.json").find("\"decode\""),
            std::string::npos);
  TestEngine again(broken, [](auto &o) { o.trap_nonfinite = 1; });
  k3rt_snapshot state = 0;
  ASSERT_EQ(k3rt_snapshot_load(again.engine,
                               (dumps + "/nonfinite-1/sequence-0.k3s").c_str(),
                               &state),
            K3RT_OK)
      << again.last();
  k3rt_sequence a = again.create();
  again.restore(a, state);
  EXPECT_EQ(again.length(a), 1u);
  EXPECT_EQ(again.tryStep({{a, {5, 6}}, {again.create(), {7}}}),
            K3RT_NON_FINITE);
  EXPECT_NE(again.last().find("inf at [1, 0, 5] of 'stream'"),
            std::string::npos)
      << again.last();
}

TEST_F(NonFiniteTest, DumpsThatCannotBeWritten) {
  std::string file = folder.write("file", "x");
  TestEngine engine(broken, [&](auto &o) {
    o.trap_nonfinite = 1;
    o.trap_folder = file.c_str();
  });
  EXPECT_EQ(engine.tryStep({{engine.create(), {5, 6}}}), K3RT_NON_FINITE);
  EXPECT_NE(engine.last().find("; it could not be written: " + file),
            std::string::npos)
      << engine.last();
}

} // namespace
