//===- PrefixCacheTest.cpp - forks, and states of known prefixes ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The toy model computes with small integers, so that outputs are equal to the
// bit or wrong.
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestEngine.h"

#include <random>

using namespace toy;

namespace {

class PrefixCacheTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeModel(folder);
};

k3rt_prefix_stats statsOf(TestEngine &engine) {
  k3rt_prefix_stats stats = {};
  stats.size = sizeof(stats);
  EXPECT_EQ(k3rt_prefix_stats_get(engine.engine, &stats), K3RT_OK);
  return stats;
}

uint64_t attach(TestEngine &engine, k3rt_sequence sequence,
                const Tokens &tokens) {
  uint64_t reused = ~uint64_t(0);
  EXPECT_EQ(k3rt_prefix_attach(engine.engine, sequence, tokens.data(),
                               tokens.size(), &reused),
            K3RT_OK)
      << engine.last();
  return reused;
}

void store(TestEngine &engine, k3rt_sequence sequence) {
  EXPECT_EQ(k3rt_prefix_store(engine.engine, sequence), K3RT_OK)
      << engine.last();
}

k3rt_sequence fork(TestEngine &engine, k3rt_sequence sequence) {
  k3rt_sequence made = -1;
  EXPECT_EQ(k3rt_sequence_fork(engine.engine, sequence, &made), K3RT_OK)
      << engine.last();
  return made;
}

Oracle after(const Tokens &tokens) {
  Oracle oracle;
  expected(oracle, tokens);
  return oracle;
}

//===----------------------------------------------------------------------===//
// Forks
//===----------------------------------------------------------------------===//

// At every position inside and at the edge of a page (4 tokens): what either
// sequence writes is not seen by the other.
TEST_F(PrefixCacheTest, ForksGoOnAlone) {
  for (size_t length = 0; length <= 13; ++length) {
    TestEngine engine(model, [](auto &o) { o.poison = 1; });
    k3rt_sequence a = engine.create();
    Tokens tokens = prompt(length, 40);
    engine.feed(a, tokens);
    k3rt_sequence b = fork(engine, a);
    EXPECT_EQ(engine.length(b), length);
    // Full pages once, and a last page each.
    EXPECT_EQ(engine.stats().used_pages, length / 4 + 2 * (length % 4 != 0));
    Oracle x = after(tokens), y = x;
    for (int i = 0; i < 6; ++i) {
      engine.step({{a, {10 + i}}, {b, {20 + i}}});
      EXPECT_EQ(engine.logits,
                (std::vector<Logits>{x.next(10 + i), y.next(20 + i)}));
    }
    EXPECT_EQ(engine.states(a), statesOf(x));
    engine.free(a);
    EXPECT_EQ(engine.states(b), statesOf(y));
    EXPECT_EQ(engine.feed(b, {3}), y.next(3));
    engine.free(b);
    EXPECT_EQ(engine.stats().used_pages, 0u);
  }
}

TEST_F(PrefixCacheTest, ForkNeedsSlotAndPage) {
  TestEngine engine(model, [](auto &o) { o.max_sequences = 2; });
  k3rt_sequence a = engine.create();
  engine.feed(a, {1, 2, 3});
  fork(engine, a);
  uint64_t used = engine.stats().used_pages;
  k3rt_sequence none = -1;
  EXPECT_EQ(k3rt_sequence_fork(engine.engine, a, &none), K3RT_OUT_OF_MEMORY);
  EXPECT_EQ(k3rt_sequence_fork(engine.engine, 77, &none),
            K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(engine.stats().used_pages, used);
}

// A snapshot into a sequence that shares its pages leaves the other one alone.
TEST_F(PrefixCacheTest, RestoreDoesNotWriteToSharedPages) {
  TestEngine engine(model);
  k3rt_sequence a = engine.create(), other = engine.create();
  engine.feed(other, prompt(11, 41));
  k3rt_snapshot snapshot = engine.snapshot(other);
  engine.feed(a, prompt(9, 42));
  k3rt_sequence b = fork(engine, a);
  engine.restore(b, snapshot);
  EXPECT_EQ(engine.states(a), statesOf(after(prompt(9, 42))));
  EXPECT_EQ(engine.states(b), statesOf(after(prompt(11, 41))));
}

//===----------------------------------------------------------------------===//
// Prefix cache
//===----------------------------------------------------------------------===//

TEST_F(PrefixCacheTest, OffByDefault) {
  TestEngine engine(model);
  k3rt_sequence sequence = engine.create();
  engine.feed(sequence, {1, 2, 3});
  store(engine, sequence);
  EXPECT_EQ(attach(engine, engine.create(), {1, 2, 3, 4}), 0u);
  EXPECT_EQ(statsOf(engine).entries, 0u);
}

// For every length of the prefix and of the request: the longest whole
// checkpoint that leaves a token to compute, and the same outputs as without.
TEST_F(PrefixCacheTest, ReusesWholeCheckpointsOnly) {
  TestEngine engine(model, [](auto &o) {
    o.poison = 1;
    o.prefix_cache_bytes = 1 << 20;
  });
  Tokens tokens = prompt(40, 43);
  k3rt_sequence publisher = engine.create();
  size_t done = 0;
  for (size_t at : {5, 8, 21}) {
    engine.feed(publisher, slice(tokens, done, at));
    store(engine, publisher);
    done = at;
  }
  // The publisher goes on: its checkpoints do not.
  engine.feed(publisher, prompt(15, 44));
  for (size_t length = 1; length <= 30; ++length)
    for (size_t shared : {length, length / 2}) {
      Tokens request = slice(tokens, 0, length);
      for (size_t i = shared; i < length; ++i)
        request[i] = (request[i] + 1) % 60;
      uint64_t want = 0;
      for (size_t at : {5, 8, 21})
        if (at <= shared && at < length)
          want = at;
      k3rt_sequence sequence = engine.create();
      ASSERT_EQ(attach(engine, sequence, request), want) << length;
      EXPECT_EQ(engine.length(sequence), want);
      Oracle oracle = after(slice(request, 0, want));
      EXPECT_EQ(engine.states(sequence), statesOf(oracle));
      EXPECT_EQ(engine.feed(sequence, slice(request, want, length)),
                expected(oracle, slice(request, want, length)).back());
      EXPECT_EQ(engine.states(sequence), statesOf(oracle));
      engine.free(sequence);
    }
  k3rt_prefix_stats stats = statsOf(engine);
  EXPECT_EQ(stats.stored, 3u);
  EXPECT_EQ(stats.lookups, 60u);
  EXPECT_GT(stats.hits, 0u);
  EXPECT_LT(stats.hits, 60u);
  EXPECT_LT(stats.reused_tokens, stats.asked_tokens);
}

TEST_F(PrefixCacheTest, AttachWantsAnEmptySequence) {
  TestEngine engine(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
  k3rt_sequence sequence = engine.create();
  engine.feed(sequence, {1});
  uint64_t reused;
  Tokens tokens = {1, 2};
  EXPECT_EQ(k3rt_prefix_attach(engine.engine, sequence, tokens.data(), 2,
                               &reused),
            K3RT_INVALID_ARGUMENT);
  EXPECT_NE(engine.last().find("is not empty"), std::string::npos);
}

TEST_F(PrefixCacheTest, KeepsNothingThatIsNotFinite) {
  TestEngine engine(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
  k3rt_sequence sequence = engine.create();
  EXPECT_EQ(engine.tryStep({{sequence, {1, nanToken}}}), K3RT_NON_FINITE);
  EXPECT_EQ(k3rt_prefix_store(engine.engine, sequence), K3RT_INVALID_ARGUMENT);
  // Without logits nobody has noticed yet.
  k3rt_sequence quiet = engine.create();
  k3rt_snapshot clean = engine.snapshot(quiet);
  engine.tryStep({{quiet, {nanToken}}});
  engine.restore(quiet, clean);
  store(engine, quiet);
  k3rt_prefix_stats stats = statsOf(engine);
  EXPECT_EQ(stats.stored, 0u);
  EXPECT_EQ(stats.entries, 0u);
}

// The budget holds, and what is evicted is gone without a trace in outputs.
TEST_F(PrefixCacheTest, StaysInsideItsBudget) {
  uint64_t one = 0;
  {
    TestEngine probe(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
    k3rt_sequence sequence = probe.create();
    probe.feed(sequence, prompt(16, 45));
    store(probe, sequence);
    one = statsOf(probe).bytes;
  }
  ASSERT_GT(one, 0u);
  TestEngine engine(model, [&](auto &o) { o.prefix_cache_bytes = 3 * one; });
  for (uint32_t i = 0; i < 20; ++i) {
    k3rt_sequence sequence = engine.create();
    Tokens tokens = prompt(16, 100 + i % 7);
    uint64_t reused = attach(engine, sequence, tokens);
    EXPECT_TRUE(reused == 0);
    Oracle oracle;
    EXPECT_EQ(engine.feed(sequence, tokens), expected(oracle, tokens).back());
    store(engine, sequence);
    engine.free(sequence);
    EXPECT_LE(statsOf(engine).bytes, 3 * one);
    EXPECT_LE(statsOf(engine).entries, 3u);
  }
  k3rt_prefix_stats stats = statsOf(engine);
  EXPECT_EQ(stats.stored, stats.evictions + stats.entries);
  EXPECT_EQ(engine.stats().used_pages, 4 * stats.entries);
  // One that is larger than all of it.
  TestEngine small(model, [&](auto &o) { o.prefix_cache_bytes = one - 1; });
  k3rt_sequence sequence = small.create();
  small.feed(sequence, prompt(16, 45));
  store(small, sequence);
  EXPECT_EQ(statsOf(small).no_room, 1u);
  EXPECT_EQ(small.stats().used_pages, 4u);
}

// What takes longer to compute again outlives what is as large; what is asked
// for outlives what is not.
TEST_F(PrefixCacheTest, KeepsWhatIsUsed) {
  uint64_t one = 0;
  {
    TestEngine probe(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
    k3rt_sequence sequence = probe.create();
    probe.feed(sequence, prompt(16, 45));
    store(probe, sequence);
    one = statsOf(probe).bytes;
  }
  TestEngine engine(model, [&](auto &o) { o.prefix_cache_bytes = 4 * one; });
  Tokens popular = prompt(16, 7);
  popular.push_back(1);
  auto request = [&](const Tokens &tokens) {
    k3rt_sequence sequence = engine.create();
    uint64_t reused = attach(engine, sequence, tokens);
    if (reused == 0) {
      engine.feed(sequence, slice(tokens, 0, 16));
      store(engine, sequence);
    }
    engine.free(sequence);
    return reused;
  };
  EXPECT_EQ(request(popular), 0u);
  for (uint32_t i = 0; i < 30; ++i) {
    Tokens once = prompt(17, 200 + i);
    EXPECT_EQ(request(once), 0u);
    EXPECT_EQ(request(popular), 16u) << i;
  }
}

// Sequences that run come first: the cache gives its pages up for them.
TEST_F(PrefixCacheTest, GivesPagesToRunningSequences) {
  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 2;
    o.max_context = 32;
    o.prefix_cache_bytes = 1 << 20;
    o.poison = 1;
  });
  uint64_t pages = engine.stats().total_pages;
  ASSERT_EQ(pages, 16u);
  for (uint32_t i = 0; i < 12; ++i) {
    k3rt_sequence a = engine.create(), b = engine.create();
    Oracle x, y;
    Tokens s = prompt(32, 300 + 2 * i), t = prompt(32, 301 + 2 * i);
    engine.step({{a, s}, {b, t}});
    EXPECT_EQ(engine.logits, (std::vector<Logits>{expected(x, s).back(),
                                                  expected(y, t).back()}));
    store(engine, a);
    store(engine, b);
    engine.free(a);
    engine.free(b);
  }
  EXPECT_GT(statsOf(engine).evictions, 0u);
}

// Any order of requests, stores, forks and frees against sequences run alone.
TEST_F(PrefixCacheTest, OutputsNeverDependOnTheCache) {
  std::mt19937 random(46);
  TestEngine engine(model, [](auto &o) {
    o.max_sequences = 6;
    o.max_context = 48;
    o.poison = 1;
    o.prefix_cache_bytes = 6000;
  });
  struct Live {
    k3rt_sequence sequence;
    Oracle oracle;
  };
  std::vector<Live> live;
  uint64_t hits = 0;
  for (int i = 0; i < 3000; ++i) {
    switch (random() % 6) {
    case 0: { // a request that shares a prefix with others
      if (live.size() == 6)
        break;
      Tokens tokens = prompt(1 + random() % 40, 500 + random() % 3);
      if (random() % 2)
        tokens.back() = int32_t(random() % 60);
      Live made{engine.create(), Oracle()};
      uint64_t reused = attach(engine, made.sequence, tokens);
      hits += reused != 0;
      made.oracle = after(slice(tokens, 0, reused));
      size_t cut = reused + 1 + random() % (tokens.size() - reused);
      ASSERT_EQ(engine.feed(made.sequence, slice(tokens, reused, cut)),
                expected(made.oracle, slice(tokens, reused, cut)).back());
      store(engine, made.sequence);
      live.push_back(made);
      break;
    }
    case 1:
      if (live.empty() || live.size() == 6)
        break;
      {
        Live &source = live[random() % live.size()];
        live.push_back({fork(engine, source.sequence), source.oracle});
      }
      break;
    case 2:
      if (live.empty())
        break;
      {
        size_t victim = random() % live.size();
        engine.free(live[victim].sequence);
        live.erase(live.begin() + long(victim));
      }
      break;
    default: { // a step of all that have room
      std::vector<Row> rows;
      std::vector<Logits> want;
      for (Live &each : live) {
        if (each.oracle.length() >= 46 || random() % 3 == 0)
          continue;
        Tokens tokens = prompt(1 + random() % 2, uint32_t(random() % 4));
        want.push_back(expected(each.oracle, tokens).back());
        rows.push_back({each.sequence, tokens});
      }
      ASSERT_EQ(engine.tryStep(rows), K3RT_OK) << engine.last();
      ASSERT_EQ(engine.logits, want);
      if (!live.empty() && random() % 2)
        store(engine, live[random() % live.size()].sequence);
    }
    }
  }
  EXPECT_GT(hits, 50u);
  EXPECT_GT(statsOf(engine).evictions, 50u);
  for (Live &each : live) {
    EXPECT_EQ(engine.states(each.sequence), statesOf(each.oracle));
    engine.free(each.sequence);
  }
}

} // namespace
