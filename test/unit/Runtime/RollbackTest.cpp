//===- RollbackTest.cpp - taking back tokens -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestScheduler.h"

#include <random>

using namespace toy;

namespace {

class RollbackTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeModel(folder);
};

k3rt_status mark(TestEngine &engine, k3rt_sequence sequence) {
  return k3rt_sequence_mark(engine.engine, sequence);
}

k3rt_status rollBack(TestEngine &engine,
                     const std::vector<k3rt_rollback_row> &rows) {
  return k3rt_rollback(engine.engine, rows.data(), uint32_t(rows.size()));
}

// At every position in a page and for every number of drafts that stay: all
// states are as if the others had never been.
TEST_F(RollbackTest, RejectedDraftsLeaveNoTrace) {
  Tokens drafts = {11, 12, 13, 14, 15, 16};
  for (size_t length = 0; length <= 9; ++length)
    for (size_t keep = 0; keep <= drafts.size(); ++keep) {
      TestEngine engine(model, [](auto &o) { o.poison = 1; });
      k3rt_sequence sequence = engine.create();
      Oracle oracle;
      engine.feed(sequence, prompt(length, 80));
      expected(oracle, prompt(length, 80));
      ASSERT_EQ(mark(engine, sequence), K3RT_OK) << engine.last();
      engine.step({{sequence, drafts, true}});
      ASSERT_EQ(rollBack(engine, {{sequence, keep}}), K3RT_OK)
          << engine.last();
      expected(oracle, slice(drafts, 0, keep));
      EXPECT_EQ(engine.length(sequence), length + keep);
      EXPECT_EQ(engine.states(sequence), statesOf(oracle));
      EXPECT_EQ(engine.stats().used_pages, (length + keep + 3) / 4);
      EXPECT_EQ(engine.feed(sequence, {30}), oracle.next(30));
      // The mark is where it was.
      ASSERT_EQ(rollBack(engine, {{sequence, 0}}), K3RT_OK);
      Oracle again;
      expected(again, prompt(length, 80));
      EXPECT_EQ(engine.feed(sequence, {31}), again.next(31));
    }
}

TEST_F(RollbackTest, SeveralSequencesAtOnce) {
  TestEngine engine(model, [](auto &o) { o.max_sequences = 6; });
  std::vector<k3rt_sequence> all;
  std::vector<Row> drafted;
  std::vector<k3rt_rollback_row> back;
  std::vector<Oracle> oracles(3);
  for (uint32_t i = 0; i < 3; ++i) {
    all.push_back(engine.create());
    engine.feed(all[i], prompt(5 + i, 81 + i));
    expected(oracles[i], prompt(5 + i, 81 + i));
    ASSERT_EQ(mark(engine, all[i]), K3RT_OK);
    drafted.push_back({all[i], prompt(4, 90 + i), true});
    back.push_back({all[i], 2 * i});
    expected(oracles[i], slice(prompt(4, 90 + i), 0, 2 * i));
  }
  engine.step(drafted);
  ASSERT_EQ(rollBack(engine, back), K3RT_OK) << engine.last();
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ(engine.states(all[i]), statesOf(oracles[i]));
}

// A mark takes a slot and gives it back, whatever ends the sequence.
TEST_F(RollbackTest, MarksTakeSlots) {
  TestEngine engine(model, [](auto &o) { o.max_sequences = 2; });
  k3rt_sequence a = engine.create(), none;
  ASSERT_EQ(mark(engine, a), K3RT_OK);
  ASSERT_EQ(mark(engine, a), K3RT_OK) << "moved, not added";
  EXPECT_EQ(k3rt_sequence_create(engine.engine, &none), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(k3rt_sequence_unmark(engine.engine, a), K3RT_OK);
  k3rt_sequence b = engine.create();
  EXPECT_EQ(mark(engine, a), K3RT_OUT_OF_MEMORY);
  EXPECT_NE(engine.last().find("a mark needs a state slot"),
            std::string::npos);
  // No mark, no way back.
  EXPECT_EQ(rollBack(engine, {{a, 0}}), K3RT_INVALID_ARGUMENT);
  engine.free(b);
  ASSERT_EQ(mark(engine, a), K3RT_OK);
  k3rt_snapshot snapshot = engine.snapshot(a);
  engine.restore(a, snapshot);
  EXPECT_EQ(rollBack(engine, {{a, 0}}), K3RT_INVALID_ARGUMENT);
  ASSERT_EQ(mark(engine, a), K3RT_OK);
  engine.free(a);
  engine.create();
  engine.create();
}

TEST_F(RollbackTest, Refusals) {
  TestEngine engine(model);
  k3rt_sequence a = engine.create(), b = engine.create();
  Oracle x, y;
  engine.step({{a, {1, 2}}, {b, {3}}});
  expected(x, {1, 2});
  y.next(3);
  ASSERT_EQ(mark(engine, a), K3RT_OK);
  engine.step({{a, {4}}});
  EXPECT_EQ(rollBack(engine, {{a, 2}}), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(engine.last(), "row 0: 2 tokens to keep, 1 came after the mark");
  EXPECT_EQ(rollBack(engine, {{a, 1}, {a, 1}}), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(rollBack(engine, {{a, 1}, {b, 0}}), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(engine.feed(a, {5}), (x.next(4), x.next(5))) << "nothing changed";
  EXPECT_EQ(engine.feed(b, {6}), y.next(6));
}

// Drafts that make the model fail are taken back like any others.
TEST_F(RollbackTest, BringsBackFailedSequences) {
  if (testDevice)
    GTEST_SKIP() << "a kernel that fails takes the GPU's context with it: CudaFaultsTest has what comes of that";
  TestEngine engine(model);
  k3rt_sequence a = engine.create();
  Oracle oracle;
  engine.feed(a, {1, 2, 3});
  expected(oracle, {1, 2, 3});
  for (int32_t bad : {nanToken, failToken}) {
    ASSERT_EQ(mark(engine, a), K3RT_OK);
    EXPECT_NE(engine.tryStep({{a, {7, bad, 8}, true}}), K3RT_OK);
    EXPECT_EQ(engine.tryStep({{a, {1}}}), K3RT_INVALID_ARGUMENT);
    ASSERT_EQ(rollBack(engine, {{a, 0}}), K3RT_OK) << engine.last();
    EXPECT_EQ(engine.feed(a, {9}), oracle.next(9));
  }
}

// Pages that a kept prefix or a fork shares are not written to.
TEST_F(RollbackTest, SharedPagesStay) {
  TestEngine engine(model, [](auto &o) {
    o.poison = 1;
    o.max_sequences = 6;
    o.prefix_cache_bytes = 1 << 20;
  });
  k3rt_sequence a = engine.create();
  engine.feed(a, prompt(6, 82));
  ASSERT_EQ(mark(engine, a), K3RT_OK);
  engine.feed(a, prompt(7, 83));
  ASSERT_EQ(k3rt_prefix_store(engine.engine, a), K3RT_OK);
  k3rt_sequence fork;
  ASSERT_EQ(k3rt_sequence_fork(engine.engine, a, &fork), K3RT_OK);
  ASSERT_EQ(rollBack(engine, {{a, 1}}), K3RT_OK);
  engine.feed(a, prompt(12, 84));
  Oracle whole, back;
  expected(whole, prompt(6, 82));
  expected(back, prompt(6, 82));
  expected(whole, prompt(7, 83));
  expected(back, slice(prompt(7, 83), 0, 1));
  expected(back, prompt(12, 84));
  EXPECT_EQ(engine.states(a), statesOf(back));
  EXPECT_EQ(engine.states(fork), statesOf(whole));
  k3rt_sequence reader = engine.create();
  Tokens tokens = prompt(6, 82);
  for (int32_t token : prompt(7, 83))
    tokens.push_back(token);
  tokens.push_back(1);
  uint64_t reused = 0;
  ASSERT_EQ(k3rt_prefix_attach(engine.engine, reader, tokens.data(),
                               tokens.size(), &reused),
            K3RT_OK);
  EXPECT_EQ(reused, 13u);
  EXPECT_EQ(engine.states(reader), statesOf(whole));
}

// A page that has come to be shared since the mark needs another in its place:
// what is promised to others is not taken for it.
TEST_F(RollbackTest, SharedPagesAreReplacedFromFreeOnes) {
  for (uint64_t pages : {11, 12}) {
    uint64_t limit = limitFor(model, 4, 16, pages);
    TestEngine engine(model, [&](auto &o) {
      o.max_sequences = 4;
      o.max_context = 16;
      o.memory_limit = limit;
    });
    ASSERT_EQ(engine.stats().total_pages, pages);
    k3rt_sequence a = engine.create(), b = engine.create(), fork;
    Oracle x, y, z;
    Tokens begin = prompt(3, 85), more = prompt(5, 86);
    engine.feed(a, begin);
    expected(x, begin);
    ASSERT_EQ(mark(engine, a), K3RT_OK);
    engine.feed(a, more);
    ASSERT_EQ(k3rt_sequence_fork(engine.engine, a, &fork), K3RT_OK);
    z = x;
    expected(z, more);
    // Both pages of `a` are shared. To be promised: 2 pages, 4, and 2.
    for (k3rt_sequence sequence : {a, b, fork})
      ASSERT_EQ(k3rt_sequence_reserve(engine.engine, sequence, 16), K3RT_OK);
    EXPECT_EQ(engine.stats().used_pages, 2u);
    EXPECT_EQ(engine.stats().reserved_pages, 8u);
    if (pages == 11) {
      EXPECT_EQ(rollBack(engine, {{a, 2}}), K3RT_OUT_OF_MEMORY);
      EXPECT_EQ(engine.last(), "the rollback needs 2 more cache pages, 9 of 11 "
                               "are free, 8 of them reserved for sequences");
      EXPECT_EQ(engine.states(a), statesOf(z));
      continue;
    }
    ASSERT_EQ(rollBack(engine, {{a, 2}}), K3RT_OK) << engine.last();
    expected(x, slice(more, 0, 2));
    EXPECT_EQ(engine.states(a), statesOf(x));
    EXPECT_EQ(engine.stats().used_pages + engine.stats().reserved_pages, pages);
    Tokens rest = prompt(16, 87);
    EXPECT_EQ(engine.feed(a, slice(rest, 0, 11)),
              expected(x, slice(rest, 0, 11)).back());
    EXPECT_EQ(engine.feed(b, rest), expected(y, rest).back());
    EXPECT_EQ(engine.feed(fork, slice(rest, 0, 8)),
              expected(z, slice(rest, 0, 8)).back());
    EXPECT_EQ(engine.stats().used_pages, pages);
  }
}

} // namespace
