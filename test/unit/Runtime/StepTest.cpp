//===- StepTest.cpp - what a step computes, however it is cut ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestEngine.h"

#include <random>

using namespace toy;

namespace {

class StepTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeModel(folder);
};

TEST_F(StepTest, WholePromptMatchesTheFormulas) {
  for (bool poison : {false, true}) {
    TestEngine engine(model, [&](auto &o) { o.poison = poison; });
    k3rt_sequence sequence = engine.create();
    Oracle oracle;
    Tokens tokens = prompt(150, 1); // three windows, many chunks and pages
    engine.step({{sequence, tokens, true}});
    EXPECT_EQ(engine.logits, expected(oracle, tokens));
    EXPECT_EQ(engine.states(sequence), statesOf(oracle));
    EXPECT_EQ(engine.length(sequence), 150u);
    // And on, one by one.
    for (int32_t token : prompt(20, 2))
      ASSERT_EQ(engine.feed(sequence, {token}), oracle.next(token));
    EXPECT_EQ(engine.states(sequence), statesOf(oracle));
  }
}

TEST_F(StepTest, SplitAtEveryPosition) {
  TestEngine engine(model, [](auto &o) { o.poison = 1; });
  Tokens tokens = prompt(70, 3);
  Oracle oracle;
  Logits want = expected(oracle, tokens).back();
  for (size_t cut = 1; cut < tokens.size(); ++cut) {
    k3rt_sequence sequence = engine.create();
    engine.feed(sequence, slice(tokens, 0, cut));
    ASSERT_EQ(engine.feed(sequence, slice(tokens, cut, tokens.size())), want)
        << "split at " << cut;
    ASSERT_EQ(engine.states(sequence), statesOf(oracle)) << "split at " << cut;
    engine.free(sequence);
  }
}

TEST_F(StepTest, WindowsOfEverySize) {
  Oracle oracle;
  Tokens tokens = prompt(129, 4);
  std::vector<Logits> want = expected(oracle, tokens);
  for (uint32_t window : {1, 2, 3, 4, 5, 7, 16, 63, 64}) {
    TestEngine engine(model, [&](auto &o) {
      o.prefill_window = window;
      o.poison = 1;
    });
    for (size_t count :
         {size_t(1), size_t(2), size_t(3), size_t(6), size_t(window),
          size_t(window) + 1, size_t(65), size_t(128), size_t(129)}) {
      k3rt_sequence sequence = engine.create();
      EXPECT_EQ(engine.feed(sequence, slice(tokens, 0, count)), want[count - 1])
          << "window " << window << ", " << count << " tokens";
      engine.step({{sequence, slice(tokens, count, 129), true}});
      EXPECT_EQ(engine.logits,
                std::vector<Logits>(want.begin() + long(count), want.end()));
      engine.free(sequence);
    }
  }
}

TEST_F(StepTest, SequencesShareNothing) {
  TestEngine engine(model, [](auto &o) { o.poison = 1; });
  for (uint32_t seed = 0; seed < 10; ++seed) {
    Tokens tokens = prompt(70 + seed, seed);
    k3rt_sequence sequence = engine.create();
    Oracle oracle;
    EXPECT_EQ(engine.feed(sequence, tokens), expected(oracle, tokens).back());
    engine.free(sequence);
  }
}

// A prompt of one token, or whose last window is one token, is no decode step;
// decodes beside it are.
TEST_F(StepTest, OneTokenPrompts) {
  for (bool withDecode : {true, false}) {
    Options options;
    options.decodeProgram = withDecode;
    Folder own;
    TestEngine engine(writeModel(own, options), [](auto &o) { o.poison = 1; });
    Oracle a, b, c;
    k3rt_sequence one = engine.create(), two = engine.create(),
                  three = engine.create();
    EXPECT_EQ(engine.feed(one, {7}), a.next(7));
    engine.step({{one, {8}}, {two, {9}}});
    EXPECT_EQ(engine.logits, (std::vector<Logits>{a.next(8), b.next(9)}));
    Tokens longer = prompt(65, 5);
    engine.step({{two, {10}}, {three, longer}, {one, {11}}});
    EXPECT_EQ(engine.logits,
              (std::vector<Logits>{b.next(10), expected(c, longer).back(),
                                   a.next(11)}));
    engine.step({{three, {12}}, {two, {13}}, {one, {14}}});
    EXPECT_EQ(engine.logits,
              (std::vector<Logits>{c.next(12), b.next(13), a.next(14)}));
    EXPECT_EQ(engine.states(three), statesOf(c));
  }
}

// Three sequences of 5, 6 and 2 rows fill a window partly; everything unused is
// poison. A fourth, which is not in the batch, must not change.
TEST_F(StepTest, PaddingReachesNothing) {
  TestEngine engine(model, [](auto &o) {
    o.poison = 1;
    o.prefill_window = 16;
  });
  k3rt_sequence bystander = engine.create();
  engine.feed(bystander, prompt(9, 6));
  auto before = engine.states(bystander);
  std::vector<Row> rows;
  std::vector<Logits> want;
  std::vector<Oracle> oracles(3);
  size_t sizes[] = {5, 6, 2};
  for (size_t i = 0; i < 3; ++i) {
    rows.push_back({engine.create(), prompt(sizes[i], uint32_t(10 + i)), true});
    for (Logits &row : expected(oracles[i], rows[i].tokens))
      want.push_back(row);
  }
  engine.step(rows);
  EXPECT_EQ(engine.logits, want);
  EXPECT_EQ(engine.firstRow, (std::vector<uint64_t>{0, 5, 11, 13}));
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(engine.states(rows[i].sequence), statesOf(oracles[i]));
  EXPECT_EQ(engine.states(bystander), before);
}

TEST_F(StepTest, RowsWithoutTokensAreUntouched) {
  TestEngine engine(model);
  k3rt_sequence idle = engine.create(), busy = engine.create(),
                fresh = engine.create();
  Oracle a, b;
  Tokens tokens = prompt(5, 7);
  engine.feed(idle, tokens);
  expected(a, tokens);
  engine.step({{idle, {}}, {busy, {4}}, {fresh, {}, true}});
  EXPECT_EQ(engine.firstRow, (std::vector<uint64_t>{0, 0, 1, 1}));
  EXPECT_EQ(engine.logits, std::vector<Logits>{b.next(4)});
  EXPECT_EQ(engine.states(idle), statesOf(a));
  EXPECT_EQ(engine.length(fresh), 0u);
  engine.step({{idle, {}}});
  EXPECT_TRUE(engine.logits.empty());
  engine.step({});
  EXPECT_EQ(engine.feed(idle, {5}), a.next(5));
}

TEST_F(StepTest, RowsThatWantNoLogits) {
  TestEngine engine(model, [](auto &o) { o.poison = 1; });
  k3rt_sequence a = engine.create(), b = engine.create();
  Oracle x, y;
  Tokens tokens = prompt(70, 8);
  std::vector<k3rt_batch_row> rows = {{a, tokens.data(), 70, -1},
                                      {b, tokens.data(), 3, 0}};
  k3rt_batch batch = {rows.data(), 2};
  k3rt_step_result result = {};
  ASSERT_EQ(k3rt_step(engine.engine, &batch, &result), K3RT_OK);
  EXPECT_EQ(result.num_logit_rows, 1u);
  EXPECT_EQ(result.first_row[1], 0u);
  EXPECT_EQ(Logits(result.logits, result.logits + result.vocab_size),
            expected(y, slice(tokens, 0, 3)).back());
  expected(x, tokens);
  EXPECT_EQ(engine.states(a), statesOf(x));
  EXPECT_EQ(engine.feed(a, {3}), x.next(3));
}

// More sequences, rows and logits than one program run takes.
TEST_F(StepTest, BatchesLargerThanAProgram) {
  Options options;
  options.maxSequences = 3;
  options.maxLogitRows = 2;
  options.maxTokens = 16;
  Folder own;
  TestEngine engine(writeModel(own, options), [](auto &o) {
    o.max_sequences = 10;
    o.poison = 1;
  });
  std::vector<Oracle> oracles(10);
  std::vector<Row> rows;
  for (int round = 0; round < 4; ++round) {
    std::vector<Logits> want;
    for (size_t i = 0; i < 10; ++i) {
      if (round == 0)
        rows.push_back({engine.create(), {}});
      size_t count = round % 2 ? 1 : (i * 7 + size_t(round)) % 23;
      rows[i].tokens = prompt(count, uint32_t(i + 100 * size_t(round)));
      rows[i].all = i % 3 == 0;
      std::vector<Logits> all = expected(oracles[i], rows[i].tokens);
      if (rows[i].all)
        want.insert(want.end(), all.begin(), all.end());
      else if (!all.empty())
        want.push_back(all.back());
    }
    engine.step(rows);
    ASSERT_EQ(engine.logits, want) << "round " << round;
  }
  for (size_t i = 0; i < 10; ++i)
    EXPECT_EQ(engine.states(rows[i].sequence), statesOf(oracles[i]));
}

// Windows of prompts and single tokens of other sequences share a run; when
// only the latter are left, decode takes them.
TEST_F(StepTest, MixedRowsShareARun) {
  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 8;
    o.poison = 1;
  });
  std::vector<Oracle> oracles(6);
  std::vector<k3rt_sequence> sequences;
  for (size_t i = 0; i < oracles.size(); ++i)
    sequences.push_back(engine.create());
  for (size_t i = 0; i < 3; ++i)
    ASSERT_EQ(engine.feed(sequences[i], {int32_t(i)}),
              oracles[i].next(int32_t(i)));
  auto runs = [&engine] {
    k3rt_stats stats = engine.stats();
    return std::make_pair(stats.prefill_runs, stats.decode_runs);
  };
  auto mixed = [&](const std::vector<std::pair<size_t, size_t>> &lengths) {
    std::vector<Row> rows;
    std::vector<Logits> want;
    for (auto [i, length] : lengths) {
      Tokens tokens = prompt(length, uint32_t(i + length));
      if (length != 0)
        want.push_back(expected(oracles[i], tokens).back());
      rows.push_back({sequences[i], tokens});
    }
    auto before = runs();
    engine.step(rows);
    EXPECT_EQ(engine.logits, want);
    auto after = runs();
    return std::make_pair(after.first - before.first,
                          after.second - before.second);
  };
  using Runs = std::pair<uint64_t, uint64_t>;
  // A window is 64 rows.
  EXPECT_EQ(mixed({{0, 1}, {3, 60}, {1, 1}, {4, 0}, {2, 2}}), Runs(1, 0));
  EXPECT_EQ(mixed({{3, 100}, {0, 1}, {4, 7}, {1, 1}}), Runs(2, 0));
  EXPECT_EQ(mixed({{3, 64}, {0, 1}, {1, 1}}), Runs(1, 1));
  EXPECT_EQ(mixed({{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}), Runs(0, 1));
  EXPECT_EQ(mixed({{5, 1}, {0, 1}}), Runs(1, 0)); // a prompt of one token
  EXPECT_EQ(mixed({{5, 0}, {0, 0}}), Runs(0, 0));
  for (size_t i = 0; i < oracles.size(); ++i)
    EXPECT_EQ(engine.states(sequences[i]), statesOf(oracles[i]));
}

TEST_F(StepTest, RowsOfLogitsThatAreNotAligned) {
  Options options;
  options.vocab = 61;
  Folder own;
  TestEngine engine(writeModel(own, options));
  Oracle a(61), b(61);
  k3rt_sequence one = engine.create(), two = engine.create();
  Tokens x = prompt(40, 8), y = prompt(3, 9);
  engine.step({{one, x, true}, {two, y}});
  std::vector<Logits> want = expected(a, x);
  want.push_back(expected(b, y).back());
  EXPECT_EQ(engine.logits, want);
  engine.step({{one, {1}}, {two, {2}}});
  EXPECT_EQ(engine.logits, (std::vector<Logits>{a.next(1), b.next(2)}));
}

TEST_F(StepTest, ThreadCountsAgree) {
  Tokens tokens = prompt(200, 10);
  Oracle oracle;
  std::vector<Logits> want = expected(oracle, tokens);
  for (uint32_t threads : {1, 2, 3, 4, 8}) {
    TestEngine engine(model, [&](auto &o) { o.threads = threads; });
    EXPECT_EQ(engine.stats().threads, threads);
    k3rt_sequence sequence = engine.create();
    engine.step({{sequence, tokens, true}});
    ASSERT_EQ(engine.logits, want) << threads << " threads";
    EXPECT_EQ(engine.states(sequence), statesOf(oracle));
  }
}

// Every token of a sequence is its marker or derived from it; requests come,
// stop at any point and leave room for others. One wrong slot or page shows.
TEST_F(StepTest, NothingCrossesBetweenSequences) {
  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 6;
    o.max_context = 64;
    o.poison = 1;
  });
  struct Request {
    k3rt_sequence sequence;
    Oracle oracle;
    uint32_t marker;
  };
  std::vector<Request> live;
  std::mt19937 random(11);
  uint32_t nextMarker = 0;
  for (int step = 0; step < 1500; ++step) {
    while (live.size() < 6 && random() % 3 == 0)
      live.push_back({engine.create(), Oracle(), nextMarker++});
    std::vector<Row> rows;
    std::vector<Logits> want;
    for (Request &request : live) {
      if (random() % 4 == 0)
        continue;
      size_t count = random() % 3 == 0 ? random() % 9 : 1;
      count = std::min<size_t>(count, 64 - request.oracle.length());
      Tokens tokens = prompt(count, request.marker);
      rows.push_back({request.sequence, tokens});
      if (count != 0)
        want.push_back(expected(request.oracle, tokens).back());
    }
    engine.step(rows);
    ASSERT_EQ(engine.logits, want) << "step " << step;
    for (size_t i = live.size(); i-- > 0;)
      if (live[i].oracle.length() == 64 || random() % 16 == 0) {
        engine.free(live[i].sequence);
        live.erase(live.begin() + long(i));
      }
  }
  for (Request &request : live)
    engine.free(request.sequence);
  EXPECT_EQ(engine.stats().live_sequences, 0u);
  EXPECT_EQ(engine.stats().used_pages, 0u);
}

} // namespace
