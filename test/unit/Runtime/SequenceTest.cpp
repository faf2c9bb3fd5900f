//===- SequenceTest.cpp - snapshots, limits, failures --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestScheduler.h"

#include <cmath>
#include <random>

using namespace toy;

namespace {

class SequenceTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeModel(folder);
};

//===----------------------------------------------------------------------===//
// Snapshots
//===----------------------------------------------------------------------===//

TEST_F(SequenceTest, RestoreIsExact) {
  TestEngine engine(model, [](auto &o) { o.poison = 1; });
  for (size_t length : {0, 1, 3, 4, 5, 33}) {
    k3rt_sequence sequence = engine.create();
    Oracle oracle;
    Tokens tokens = prompt(length, 20);
    engine.feed(sequence, tokens);
    expected(oracle, tokens);
    Oracle kept = oracle;
    k3rt_snapshot snapshot = engine.snapshot(sequence);
    // The publisher goes on; the published bytes do not.
    Tokens more = prompt(21, 21);
    EXPECT_EQ(engine.feed(sequence, more), expected(oracle, more).back());
    engine.restore(sequence, snapshot);
    EXPECT_EQ(engine.length(sequence), length);
    EXPECT_EQ(engine.states(sequence), statesOf(kept));
    // Into another sequence: both go on from there.
    k3rt_sequence fork = engine.create();
    engine.feed(fork, prompt(40, 22));
    engine.restore(fork, snapshot);
    Oracle a = kept, b = kept;
    engine.step({{sequence, {5}}, {fork, {6}}});
    EXPECT_EQ(engine.logits, (std::vector<Logits>{a.next(5), b.next(6)}));
    EXPECT_EQ(engine.states(fork), statesOf(b));
    EXPECT_EQ(k3rt_snapshot_free(engine.engine, snapshot), K3RT_OK);
    engine.free(sequence);
    engine.free(fork);
  }
  EXPECT_EQ(engine.stats().used_pages, 0u);
}

// What is written is what the next step goes on from.
TEST_F(SequenceTest, WriteState) {
  TestEngine engine(model);
  k3rt_sequence a = engine.create(), b = engine.create();
  Oracle x, y;
  engine.feed(a, prompt(9, 24));
  expected(x, prompt(9, 24));
  engine.feed(b, prompt(9, 25));
  for (auto [layer, name] :
       {std::pair<uint32_t, const char *>{0, "kda"}, {0, "conv_q"},
        {2, "kda"}, {2, "conv_q"}}) {
    std::vector<float> values = engine.state(a, layer, name);
    EXPECT_EQ(k3rt_sequence_write_state(engine.engine, b, layer, name,
                                        values.data(), values.size()),
              K3RT_OK)
        << engine.last();
    EXPECT_EQ(engine.state(b, layer, name), values);
    EXPECT_EQ(k3rt_sequence_write_state(engine.engine, b, layer, name,
                                        values.data(), values.size() - 1),
              K3RT_INVALID_ARGUMENT);
  }
  float value = 0;
  EXPECT_EQ(k3rt_sequence_write_state(engine.engine, b, 1, "kv", &value, 1),
            K3RT_INVALID_ARGUMENT);
  EXPECT_NE(engine.last().find("grows with the sequence"), std::string::npos);
  EXPECT_EQ(k3rt_sequence_write_state(engine.engine, b, 0, "none", &value, 1),
            K3RT_INVALID_ARGUMENT);
}

// A recurrence cannot be cut back: rejected draft tokens are undone by
// restoring and running the accepted ones again.
TEST_F(SequenceTest, RejectedDraftsLeaveNoTrace) {
  TestEngine engine(model);
  Tokens drafts = {11, 12, 13, 14};
  for (size_t accepted = 0; accepted <= drafts.size(); ++accepted) {
    k3rt_sequence sequence = engine.create();
    Oracle oracle;
    Tokens tokens = prompt(18, 23);
    engine.feed(sequence, tokens);
    expected(oracle, tokens);
    k3rt_snapshot snapshot = engine.snapshot(sequence);
    engine.step({{sequence, drafts, true}});
    engine.restore(sequence, snapshot);
    engine.feed(sequence, slice(drafts, 0, accepted));
    expected(oracle, slice(drafts, 0, accepted));
    EXPECT_EQ(engine.states(sequence), statesOf(oracle));
    EXPECT_EQ(engine.feed(sequence, {30}), oracle.next(30));
    engine.free(sequence);
  }
}

TEST_F(SequenceTest, SnapshotHandles) {
  TestEngine engine(model);
  k3rt_sequence sequence = engine.create();
  k3rt_snapshot first = engine.snapshot(sequence);
  EXPECT_EQ(k3rt_snapshot_free(engine.engine, first), K3RT_OK);
  k3rt_snapshot second = engine.snapshot(sequence);
  EXPECT_NE(first, second);
  for (k3rt_snapshot wrong : {first, k3rt_snapshot(0), k3rt_snapshot(-1),
                              k3rt_snapshot(1), second + 1}) {
    EXPECT_EQ(k3rt_snapshot_free(engine.engine, wrong), K3RT_INVALID_ARGUMENT);
    EXPECT_EQ(k3rt_sequence_restore(engine.engine, sequence, wrong),
              K3RT_INVALID_ARGUMENT);
    EXPECT_NE(engine.last().find("unknown snapshot"), std::string::npos);
  }
}

//===----------------------------------------------------------------------===//
// Limits: a call that fails changes nothing
//===----------------------------------------------------------------------===//

TEST_F(SequenceTest, OutOfSlots) {
  TestEngine engine(model, [](auto &o) { o.max_sequences = 2; });
  k3rt_sequence a = engine.create(), b = engine.create(), c = -7;
  EXPECT_EQ(k3rt_sequence_create(engine.engine, &c), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(engine.last(), "all 2 state slots are in use (max_sequences)");
  EXPECT_EQ(c, -7);
  engine.free(a);
  k3rt_sequence d = engine.create();
  EXPECT_NE(a, d);
  // The handle that was freed does not reach the new owner of its slot.
  EXPECT_EQ(engine.tryStep({{a, {1}}}), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(k3rt_sequence_free(engine.engine, a), K3RT_INVALID_ARGUMENT);
  Oracle oracle;
  EXPECT_EQ(engine.feed(d, {1}), oracle.next(1));
  engine.free(b);
}

uint64_t planned(const std::string &model, uint32_t sequences,
                 uint64_t context) {
  TestEngine engine(model, [&](auto &o) {
    o.max_sequences = sequences;
    o.max_context = context;
  });
  return engine.stats().total_pages;
}

TEST_F(SequenceTest, OutOfPages) {
  uint64_t limit = limitFor(model, 3, 64, 10);
  TestEngine engine(model, [&](auto &o) {
    o.max_sequences = 3;
    o.max_context = 64;
    o.memory_limit = limit;
    o.poison = 1;
  });
  ASSERT_EQ(engine.stats().total_pages, 10u);
  ASSERT_EQ(planned(model, 3, 64), 48u);
  k3rt_sequence a = engine.create(), b = engine.create();
  Oracle x, y;
  Tokens tokens = prompt(30, 24); // 8 pages of 4
  engine.feed(a, tokens);
  expected(x, tokens);
  engine.feed(b, {1, 2, 3});
  expected(y, {1, 2, 3});
  auto before = engine.states(b);
  // 2 pages are left over for a's 3 more tokens and b's 6: one too few.
  EXPECT_EQ(engine.tryStep({{a, {1, 2, 3}}, {b, {1, 2, 3, 4, 5, 6}}}),
            K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(engine.last(),
            "the step needs 3 more cache pages, 1 of 10 are free");
  EXPECT_EQ(engine.stats().used_pages, 9u);
  EXPECT_EQ(engine.length(a), 30u);
  EXPECT_EQ(engine.states(b), before);
  engine.step({{a, {9, 8}}, {b, {7}}});
  EXPECT_EQ(engine.logits[0], (x.next(9), x.next(8)));
  EXPECT_EQ(engine.logits[1], y.next(7));

  // A restore that does not fit leaves its target alone.
  k3rt_snapshot snapshot = engine.snapshot(a);
  before = engine.states(b);
  EXPECT_EQ(k3rt_sequence_restore(engine.engine, b, snapshot),
            K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(engine.last(), "restoring 32 tokens needs 7 more cache pages, 1 of "
                           "10 are free");
  EXPECT_EQ(engine.states(b), before);
  EXPECT_EQ(engine.feed(b, {6}), y.next(6));
  engine.free(a);
  engine.restore(b, snapshot);
  EXPECT_EQ(engine.states(b), statesOf(x));
  engine.free(b);
  EXPECT_EQ(engine.stats().used_pages, 0u);
}

TEST_F(SequenceTest, SnapshotsHaveABudget) {
  TestEngine engine(model, [](auto &o) { o.snapshot_limit = 1000; });
  k3rt_sequence sequence = engine.create();
  engine.feed(sequence, prompt(10, 1));
  // 10 rows of the cache, the two recurrent states, the two windows.
  uint64_t bytes = 10 * hidden * 4 + 2 * hidden * 4 + 2 * 2 * hidden * 2;
  ASSERT_EQ(bytes, 448u);
  k3rt_snapshot first = engine.snapshot(sequence), third = -1;
  engine.snapshot(sequence);
  EXPECT_EQ(k3rt_sequence_snapshot(engine.engine, sequence, &third),
            K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(engine.last(), "a snapshot needs 448 bytes, 896 of snapshot_limit "
                           "1000 are in use");
  EXPECT_EQ(third, -1);
  EXPECT_EQ(k3rt_snapshot_free(engine.engine, first), K3RT_OK);
  engine.snapshot(sequence);
}

TEST_F(SequenceTest, LimitsOfMemory) {
  // What the plan admits works, one more does not.
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  k3rt_engine_options options;
  k3rt_engine_options_init(&options);
  options.max_sequences = 5;
  options.max_context = 40;
  char error[256];
  ASSERT_EQ(k3rt_plan_open(model.c_str(), 0, &options, &plan, error, 256),
            K3RT_OK)
      << error;
  EXPECT_EQ(plan.recurrent_bytes_per_sequence, 2u * hidden * 4);
  EXPECT_EQ(plan.conv_bytes_per_sequence, 2u * 2 * hidden * 2);
  EXPECT_EQ(plan.state_bytes_per_sequence,
            plan.recurrent_bytes_per_sequence + plan.conv_bytes_per_sequence);
  EXPECT_EQ(plan.kv_bytes_per_token, hidden * 4u);
  EXPECT_EQ(plan.kv_pool_bytes, 5 * 40 * plan.kv_bytes_per_token);
  EXPECT_GE(plan.state_pool_bytes, 5 * plan.state_bytes_per_sequence);
  EXPECT_EQ(plan.expert_bytes, hidden * 4u);

  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 5;
    o.max_context = 40;
  });
  for (int i = 0; i < 5; ++i)
    engine.feed(engine.create(), prompt(40, 1));
  k3rt_sequence sixth;
  EXPECT_EQ(k3rt_sequence_create(engine.engine, &sixth), K3RT_OUT_OF_MEMORY);

  TestEngine small;
  EXPECT_EQ(small.open(model, [](auto &o) { o.memory_limit = 1000; }),
            K3RT_OUT_OF_MEMORY);
  EXPECT_NE(small.error.find("memory_limit is 1000 bytes"), std::string::npos)
      << small.error;
}

// What k3-run --plan prints can be admitted, one more cannot.
TEST_F(SequenceTest, CapacityCanBeAdmitted) {
  k3rt_engine_options options;
  k3rt_engine_options_init(&options);
  options.threads = 2;
  options.memory_limit = 60000;
  options.device = testDevice;
  uint64_t tokens[] = {1, 10, 100, 1000, 100000}, sequences[5];
  char error[256] = "";
  ASSERT_EQ(k3rt_plan_capacity(model.c_str(), 0, &options, tokens, 5, sequences,
                               error, 256),
            K3RT_OK)
      << error;
  EXPECT_GT(sequences[0], sequences[2]);
  EXPECT_GT(sequences[2], 1u);
  EXPECT_EQ(sequences[4], 0u);
  for (size_t i = 0; i < 3; ++i) {
    auto change = [&](uint64_t more) {
      return [&, more](auto &o) {
        o.memory_limit = options.memory_limit;
        o.max_sequences = uint32_t(sequences[i] + more);
        o.max_context = tokens[i];
      };
    };
    TestEngine engine(model, change(0));
    for (uint64_t n = 0; n < sequences[i]; ++n)
      engine.feed(engine.create(), prompt(tokens[i], uint32_t(n)));
    EXPECT_EQ(engine.stats().used_pages, engine.stats().total_pages);
    TestEngine larger;
    if (larger.open(model, change(1)) == K3RT_OK) {
      EXPECT_LT(larger.stats().total_pages,
                (sequences[i] + 1) * ((tokens[i] + 3) / 4));
    }
  }
  options.memory_limit = 0;
  EXPECT_EQ(k3rt_plan_capacity(model.c_str(), 0, &options, tokens, 5, sequences,
                               error, 256),
            K3RT_INVALID_ARGUMENT);
  EXPECT_STREQ(error, "memory_limit is 0");
}

// Capacity, use and fragmentation of the pools.
TEST_F(SequenceTest, PoolsCanBeRead) {
  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 4;
    o.max_context = 32;
    o.prefix_cache_bytes = 1 << 20;
  });
  k3rt_stats stats = engine.stats();
  EXPECT_EQ(stats.total_slots, 4u);
  EXPECT_EQ(stats.slot_bytes, 2u * hidden * 4 + 2 * 2 * hidden * 2);
  EXPECT_EQ(stats.page_tokens, 4u);
  EXPECT_EQ(stats.page_bytes, 4u * hidden * 4);
  EXPECT_EQ(stats.total_pages, 32u);
  EXPECT_EQ(stats.unused_rows, 0u);
  k3rt_sequence a = engine.create();
  engine.feed(a, prompt(10, 1)); // 3 pages, the last half full
  ASSERT_EQ(k3rt_sequence_reserve(engine.engine, a, 20), K3RT_OK);
  stats = engine.stats();
  EXPECT_EQ(stats.live_sequences, 1u);
  EXPECT_EQ(stats.used_pages, 3u);
  EXPECT_EQ(stats.unused_rows, 2u);
  EXPECT_EQ(stats.reserved_pages, 2u);
  EXPECT_EQ(stats.shared_pages, 0u);
  k3rt_sequence b = -1;
  ASSERT_EQ(k3rt_sequence_fork(engine.engine, a, &b), K3RT_OK);
  engine.feed(b, {1});
  stats = engine.stats();
  EXPECT_EQ(stats.used_pages, 4u);
  EXPECT_EQ(stats.shared_pages, 2u);
  EXPECT_EQ(stats.unused_rows, 3u);
  ASSERT_EQ(k3rt_prefix_store(engine.engine, b), K3RT_OK);
  EXPECT_EQ(engine.stats().cached_pages, 0u);
  engine.free(a);
  engine.free(b);
  stats = engine.stats();
  EXPECT_EQ(stats.used_pages, 2u);
  EXPECT_EQ(stats.cached_pages, 2u);
  EXPECT_EQ(stats.reserved_pages, 0u);
  EXPECT_EQ(stats.unused_rows, 0u);
}

TEST_F(SequenceTest, BadBatches) {
  TestEngine engine(model, [](auto &o) { o.max_context = 10; });
  k3rt_sequence a = engine.create(), b = engine.create();
  Oracle x;
  engine.feed(a, {1, 2, 3});
  expected(x, {1, 2, 3});
  auto before = engine.states(a);
  struct {
    std::vector<Row> rows;
    const char *message;
  } cases[] = {
      {{{b, {5}}, {a, {1, -1}}},
       "row 1: token -1 at position 4 is not in [0, 64)"},
      {{{b, {5}}, {a, {64}}},
       "row 1: token 64 at position 3 is not in [0, 64)"},
      {{{b, {5}}, {a, prompt(8, 1)}},
       "row 1: 8 tokens after 3 exceed the context of 10"},
      {{{a, {5}}, {a, {6}}}, "is in the batch twice"},
      {{{a, {5}}, {12345, {6}}}, "row 1: unknown sequence 12345"},
      {{{a, {5}}, {-1, {6}}}, "row 1: unknown sequence -1"},
      {{{a, {}}, {b, {}}, {a, {}}, {a, {}}, {a, {}}},
       "5 rows, but there are at most 4 sequences"},
  };
  for (const auto &wrong : cases) {
    EXPECT_EQ(engine.tryStep(wrong.rows), K3RT_INVALID_ARGUMENT);
    EXPECT_NE(engine.last().find(wrong.message), std::string::npos)
        << engine.last();
    EXPECT_EQ(engine.states(a), before);
    EXPECT_EQ(engine.length(b), 0u);
  }
  EXPECT_EQ(engine.feed(a, prompt(7, 1)), expected(x, prompt(7, 1)).back());
  EXPECT_EQ(engine.tryStep({{a, {1}}}), K3RT_INVALID_ARGUMENT);
}

// Requests that are dropped at any stage give back everything.
TEST_F(SequenceTest, CancelledRequestsLeakNothing) {
  TestEngine engine(model);
  std::mt19937 random(30);
  for (int i = 0; i < 2000; ++i) {
    k3rt_sequence sequence = engine.create();
    switch (random() % 4) {
    case 0:
      break;
    case 1:
      engine.feed(sequence, prompt(random() % 80, 1));
      break;
    case 2:
      engine.feed(sequence, prompt(10, 1));
      engine.feed(sequence, {1});
      break;
    case 3:
      engine.tryStep({{sequence, {1, 2, -5}}});
      break;
    }
    engine.free(sequence);
    ASSERT_EQ(engine.stats().used_pages, 0u);
    ASSERT_EQ(engine.stats().live_sequences, 0u);
  }
  for (int i = 0; i < 4; ++i)
    engine.create();
}

//===----------------------------------------------------------------------===//
// Failures after states have changed
//===----------------------------------------------------------------------===//

TEST_F(SequenceTest, NonFiniteLogitsStayWithTheirSequence) {
  TestEngine engine(model);
  k3rt_sequence sick = engine.create(), well = engine.create();
  Oracle x, y;
  engine.step({{sick, {1, 2}}, {well, {3}}});
  expected(x, {1, 2});
  y.next(3);
  k3rt_snapshot snapshot = engine.snapshot(sick);
  EXPECT_EQ(engine.tryStep({{well, {4}}, {sick, {5, nanToken, 6}, true}}),
            K3RT_NON_FINITE);
  EXPECT_NE(engine.last().find("row 1: sequence "), std::string::npos);
  // On a GPU only logits are looked at.
  const char *what =
      testDevice ? " has NaN or infinite logits after the token at position 3 "
                   "(first: token id 0); free it or restore a snapshot"
                 : " has NaN or infinite values after layer 0 for the token at "
                   "position 3; free it or restore a snapshot";
  EXPECT_NE(engine.last().find(what), std::string::npos) << engine.last();
  EXPECT_EQ(engine.rowStatus, (std::vector<int32_t>{K3RT_OK, K3RT_NON_FINITE}));
  EXPECT_EQ(engine.logits[0], y.next(4));
  EXPECT_TRUE(std::isnan(engine.logits[2][0]));
  // Closed, for steps and snapshots, without harm to others.
  EXPECT_EQ(engine.tryStep({{sick, {1}}, {well, {1}}}), K3RT_INVALID_ARGUMENT);
  k3rt_snapshot refused;
  EXPECT_EQ(k3rt_sequence_snapshot(engine.engine, sick, &refused),
            K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(engine.feed(well, {5}), y.next(5));
  EXPECT_EQ(engine.states(well), statesOf(y));
  engine.restore(sick, snapshot);
  EXPECT_EQ(engine.feed(sick, {7}), x.next(7));
  // Its slot is clean for the next owner.
  EXPECT_EQ(engine.tryStep({{sick, {nanToken}}}), K3RT_NON_FINITE);
  engine.free(sick);
  k3rt_sequence next = engine.create();
  Oracle z;
  EXPECT_EQ(engine.feed(next, {8}), z.next(8));
  engine.step({{well, {6}}, {next, {9}}});
  EXPECT_EQ(engine.rowStatus, (std::vector<int32_t>{K3RT_OK, K3RT_OK}));
}

TEST_F(SequenceTest, KernelFailuresAreNamed) {
  if (testDevice)
    GTEST_SKIP() << "a kernel that fails takes the GPU's context with it: CudaFaultsTest has what comes of that";
  for (uint32_t threads : {1, 4}) {
    TestEngine engine(model, [&](auto &o) { o.threads = threads; });
    k3rt_sequence a = engine.create(), b = engine.create(), c = engine.create();
    Oracle x, y;
    engine.step({{a, {1}}, {b, {2}}});
    x.next(1);
    y.next(2);
    k3rt_snapshot snapshot = engine.snapshot(a);
    EXPECT_EQ(engine.tryStep({{a, prompt(30, 1)}, {c, {failToken}}}),
              K3RT_INTERNAL);
    EXPECT_EQ(engine.last(), "kernel 'embed' failed with code 7 (outside "
                             "layers, dispatch 'do_embed')");
    EXPECT_EQ(engine.tryStep({{a, {1}}}), K3RT_INVALID_ARGUMENT);
    EXPECT_NE(engine.last().find("cannot be continued"), std::string::npos);
    EXPECT_EQ(engine.feed(b, {3}), y.next(3));
    engine.restore(a, snapshot);
    EXPECT_EQ(engine.feed(a, {4}), x.next(4));
    engine.free(c);
    Oracle z;
    EXPECT_EQ(engine.feed(engine.create(), {5}), z.next(5));
  }
}

} // namespace
