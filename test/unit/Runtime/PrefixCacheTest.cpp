//===- PrefixCacheTest.cpp - forks, and states of known prefixes ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The toy model computes with small integers, so that outputs are equal to the
// bit or wrong.
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/TestScheduler.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

using namespace toy;

namespace {

class PrefixCacheTest : public testing::Test {
protected:
  Folder folder;
  std::string model = writeModel(folder);
};

k3rt_prefix_stats cacheStats(TestEngine &engine) {
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
  EXPECT_EQ(cacheStats(engine).entries, 0u);
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
  k3rt_prefix_stats stats = cacheStats(engine);
  EXPECT_EQ(stats.stored, 3u);
  EXPECT_EQ(stats.lookups, 60u);
  EXPECT_GT(stats.hits, 0u);
  EXPECT_LT(stats.hits, 60u);
  EXPECT_LT(stats.reused_tokens, stats.asked_tokens);
}

// Whoever asks for states to be kept learns at once that they would not be.
TEST_F(PrefixCacheTest, OptionsThatKeepNothingAreRefused) {
  std::string spill = folder.path("");
  struct {
    uint64_t memory, files;
    bool hasFolder;
    const char *error;
  } cases[] = {
      {0, 1 << 20, true, "prefix_spill_dir is of no use without prefix_cache_bytes"},
      {1 << 20, 0, true, "prefix_spill_dir is of no use without prefix_spill_bytes"},
      {1 << 20, 1 << 20, false,
       "prefix_spill_bytes is of no use without prefix_spill_dir"},
      {0, 1 << 20, false,
       "prefix_spill_bytes is of no use without prefix_spill_dir"}};
  for (const auto &each : cases) {
    TestEngine engine;
    EXPECT_EQ(engine.open(model,
                          [&](auto &o) {
                            o.prefix_cache_bytes = each.memory;
                            o.prefix_spill_bytes = each.files;
                            o.prefix_spill_dir =
                                each.hasFolder ? spill.c_str() : nullptr;
                          }),
              K3RT_INVALID_ARGUMENT);
    EXPECT_EQ(engine.error, each.error);
  }
}

// A state that is not kept is counted under its reason, each under one.
TEST_F(PrefixCacheTest, EveryReasonNotToKeepHasItsCount) {
  auto countsOf = [](const k3rt_prefix_stats &stats) {
    return std::vector<uint64_t>{stats.stored, stats.known, stats.non_finite,
                                 stats.no_room};
  };
  uint64_t one = 0;
  {
    TestEngine engine(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
    k3rt_sequence sequence = engine.create();
    engine.feed(sequence, prompt(6, 46));
    store(engine, sequence);
    one = cacheStats(engine).bytes;
    EXPECT_EQ(countsOf(cacheStats(engine)), (std::vector<uint64_t>{1, 0, 0, 0}));
    store(engine, sequence);
    EXPECT_EQ(countsOf(cacheStats(engine)), (std::vector<uint64_t>{1, 1, 0, 0}));
    uint64_t count = hidden;
    std::vector<float> bad(hidden, NAN);
    k3rt_sequence sick = engine.create();
    engine.feed(sick, prompt(5, 47));
    ASSERT_EQ(k3rt_sequence_write_state(engine.engine, sick, 0, "kda",
                                        bad.data(), count),
              K3RT_OK)
        << engine.last();
    store(engine, sick);
    EXPECT_EQ(countsOf(cacheStats(engine)), (std::vector<uint64_t>{1, 1, 1, 0}));
  }
  TestEngine engine(model, [&](auto &o) { o.prefix_cache_bytes = one; });
  k3rt_sequence sequence = engine.create();
  engine.feed(sequence, prompt(11, 48));
  store(engine, sequence);
  EXPECT_EQ(countsOf(cacheStats(engine)), (std::vector<uint64_t>{0, 0, 0, 1}));
  TestEngine off(model);
  sequence = off.create();
  off.feed(sequence, prompt(6, 49));
  store(off, sequence);
  EXPECT_EQ(countsOf(cacheStats(off)), (std::vector<uint64_t>{0, 0, 0, 0}));
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
  k3rt_prefix_stats stats = cacheStats(engine);
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
    one = cacheStats(probe).bytes;
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
    EXPECT_LE(cacheStats(engine).bytes, 3 * one);
    EXPECT_LE(cacheStats(engine).entries, 3u);
  }
  k3rt_prefix_stats stats = cacheStats(engine);
  EXPECT_EQ(stats.stored, stats.evictions + stats.entries);
  EXPECT_EQ(engine.stats().used_pages, 4 * stats.entries);
  // One that is larger than all of it.
  TestEngine small(model, [&](auto &o) { o.prefix_cache_bytes = one - 1; });
  k3rt_sequence sequence = small.create();
  small.feed(sequence, prompt(16, 45));
  store(small, sequence);
  EXPECT_EQ(cacheStats(small).no_room, 1u);
  EXPECT_EQ(small.stats().used_pages, 4u);
}

// Of two entries with copies of the same size the one that is more tokens away
// from what else is known outlives the other, whenever it was stored.
TEST_F(PrefixCacheTest, KeepsWhatIsMoreToComputeAgain) {
  auto bytesOf = [&](size_t length) {
    TestEngine probe(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
    k3rt_sequence sequence = probe.create();
    probe.feed(sequence, prompt(length, 45));
    store(probe, sequence);
    return cacheStats(probe).bytes;
  };
  uint64_t budget = bytesOf(16) + bytesOf(4) + bytesOf(12) - 1;
  for (bool longFirst : {true, false}) {
    TestEngine engine(model, [&](auto &o) { o.prefix_cache_bytes = budget; });
    size_t lengths[] = {longFirst ? size_t(16) : 4, longFirst ? size_t(4) : 16,
                        12};
    for (size_t length : lengths) {
      k3rt_sequence sequence = engine.create();
      engine.feed(sequence, prompt(length, uint32_t(length)));
      store(engine, sequence);
      engine.free(sequence);
    }
    for (size_t length : lengths) {
      Tokens tokens = prompt(length, uint32_t(length));
      tokens.push_back(1);
      k3rt_sequence sequence = engine.create();
      EXPECT_EQ(attach(engine, sequence, tokens), length == 4 ? 0 : length);
      engine.free(sequence);
    }
  }
}

// What is asked for outlives what is not.
TEST_F(PrefixCacheTest, KeepsWhatIsUsed) {
  uint64_t one = 0;
  {
    TestEngine probe(model, [](auto &o) { o.prefix_cache_bytes = 1 << 20; });
    k3rt_sequence sequence = probe.create();
    probe.feed(sequence, prompt(16, 45));
    store(probe, sequence);
    one = cacheStats(probe).bytes;
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
  EXPECT_GT(cacheStats(engine).evictions, 0u);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

size_t filesIn(const Folder &folder, const char *name) {
  size_t count = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(folder.path(name)))
    count += entry.is_regular_file();
  return count;
}

// Room for one entry in memory and three on disk; the model's answers are the
// same as ever.
TEST_F(PrefixCacheTest, SpillsToFilesAndReadsThemAgain) {
  std::filesystem::create_directory(folder.path("spill"));
  std::string spill = folder.path("spill");
  uint64_t one = 0, file = 0;
  auto sizes = [&](auto &o) {
    o.poison = 1;
    o.prefix_cache_bytes = one ? one : 1 << 20;
    o.prefix_spill_dir = spill.c_str();
    o.prefix_spill_bytes = file ? 3 * file : 1 << 20;
  };
  Tokens first = prompt(18, 60), second = prompt(18, 61);
  {
    TestEngine probe(model, sizes);
    k3rt_sequence a = probe.create();
    probe.feed(a, first);
    store(probe, a);
    one = cacheStats(probe).bytes;
  }
  {
    TestEngine probe(model, sizes);
    k3rt_sequence a = probe.create(), b = probe.create();
    probe.feed(a, first);
    store(probe, a);
    probe.feed(b, second);
    store(probe, b);
    EXPECT_EQ(cacheStats(probe).spill_entries, 1u);
    file = cacheStats(probe).spill_bytes;
    EXPECT_EQ(filesIn(folder, "spill"), 1u);
  }
  EXPECT_EQ(filesIn(folder, "spill"), 0u) << "files go with the engine";

  TestEngine engine(model, sizes);
  for (uint32_t i = 0; i < 6; ++i) {
    k3rt_sequence sequence = engine.create();
    engine.feed(sequence, prompt(18, 60 + i));
    store(engine, sequence);
    engine.free(sequence);
    EXPECT_LE(cacheStats(engine).bytes, one);
    EXPECT_LE(cacheStats(engine).spill_bytes, 3 * file);
    EXPECT_EQ(filesIn(folder, "spill"), cacheStats(engine).spill_entries);
  }
  k3rt_prefix_stats stats = cacheStats(engine);
  EXPECT_EQ(stats.entries, 4u);
  EXPECT_EQ(stats.spill_entries, 3u);
  uint64_t hits = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    Tokens request = prompt(18, 60 + i);
    request.push_back(9);
    k3rt_sequence sequence = engine.create();
    uint64_t reused = attach(engine, sequence, request);
    hits += reused == 18;
    Oracle oracle = after(slice(request, 0, reused));
    EXPECT_EQ(engine.states(sequence), statesOf(oracle));
    EXPECT_EQ(engine.feed(sequence, slice(request, reused, 19)),
              expected(oracle, slice(request, reused, 19)).back());
    engine.free(sequence);
  }
  EXPECT_EQ(hits, 4u);
  EXPECT_EQ(cacheStats(engine).spill_loads, 3u);
}

// Rows that come from a file need pages of their own: not those that were
// promised to others.
TEST_F(PrefixCacheTest, FilesTakeNoPromisedPages) {
  std::filesystem::create_directory(folder.path("spill"));
  std::string spill = folder.path("spill");
  uint64_t limit = limitFor(model, 3, 32, 10), one = 0;
  Tokens first = prompt(18, 70);
  auto sizes = [&](auto &o) {
    o.max_sequences = 3;
    o.max_context = 32;
    o.memory_limit = limit;
    o.prefix_cache_bytes = one ? one : 1 << 20;
    o.prefix_spill_dir = spill.c_str();
    o.prefix_spill_bytes = 1 << 20;
  };
  {
    TestEngine probe(model, sizes);
    k3rt_sequence sequence = probe.create();
    probe.feed(sequence, first);
    store(probe, sequence);
    one = cacheStats(probe).bytes;
  }
  TestEngine engine(model, sizes);
  for (uint32_t seed : {70, 71}) {
    k3rt_sequence sequence = engine.create();
    engine.feed(sequence, prompt(18, seed));
    store(engine, sequence);
    engine.free(sequence);
  }
  ASSERT_EQ(cacheStats(engine).spill_entries, 1u);
  // 6 of 10 pages, for which the other entry gives up its own: 4 are left of the 5
  // that the first needs.
  k3rt_sequence promised = engine.create(), sequence = engine.create();
  ASSERT_EQ(k3rt_sequence_reserve(engine.engine, promised, 24), K3RT_OK);
  first.push_back(9);
  EXPECT_EQ(attach(engine, sequence, first), 0u);
  Oracle oracle;
  EXPECT_EQ(engine.feed(promised, prompt(24, 72)),
            expected(oracle, prompt(24, 72)).back());
  engine.free(promised);
  EXPECT_EQ(attach(engine, sequence, first), 18u);
}

// A damaged file is a miss, not an answer.
TEST_F(PrefixCacheTest, DamagedFilesAreMisses) {
  std::filesystem::create_directory(folder.path("spill"));
  std::string spill = folder.path("spill");
  TestEngine engine(model, [&](auto &o) {
    o.prefix_cache_bytes = 1200;
    o.prefix_spill_dir = spill.c_str();
    o.prefix_spill_bytes = 1 << 20;
  });
  for (uint32_t i = 0; i < 8; ++i) {
    k3rt_sequence sequence = engine.create();
    engine.feed(sequence, prompt(18, 60 + i));
    store(engine, sequence);
    engine.free(sequence);
  }
  uint64_t files = cacheStats(engine).spill_entries, position = 70;
  ASSERT_GT(files, 2u);
  for (const auto &entry : std::filesystem::directory_iterator(spill)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out |
                                        std::ios::binary);
    file.seekg(long(position));
    char byte = char(file.get());
    file.seekp(long(position));
    file.put(char(byte ^ 4));
    position += position < 200 ? 130 : 40; // not between tokens and state
  }
  for (uint32_t i = 0; i < 8; ++i) {
    Tokens request = prompt(18, 60 + i);
    request.push_back(9);
    k3rt_sequence sequence = engine.create();
    uint64_t reused = attach(engine, sequence, request);
    Oracle oracle = after(slice(request, 0, reused));
    EXPECT_EQ(engine.feed(sequence, slice(request, reused, 19)),
              expected(oracle, slice(request, reused, 19)).back());
    engine.free(sequence);
  }
  k3rt_prefix_stats stats = cacheStats(engine);
  EXPECT_EQ(stats.spill_errors, files);
  EXPECT_EQ(stats.spill_loads, 0u);
  EXPECT_EQ(filesIn(folder, "spill"), 0u);
}

// Nowhere to write: entries are given up, requests go on.
TEST_F(PrefixCacheTest, SpillFolderThatVanishes) {
  std::filesystem::create_directory(folder.path("spill"));
  std::string spill = folder.path("spill");
  auto change = [&](auto &o) {
    o.prefix_cache_bytes = 1200;
    o.prefix_spill_dir = spill.c_str();
    o.prefix_spill_bytes = 1 << 20;
  };
  TestEngine engine(model, change);
  std::filesystem::remove(spill);
  for (uint32_t i = 0; i < 8; ++i) {
    k3rt_sequence sequence = engine.create();
    Oracle oracle;
    EXPECT_EQ(engine.feed(sequence, prompt(18, 60 + i)),
              expected(oracle, prompt(18, 60 + i)).back());
    store(engine, sequence);
    engine.free(sequence);
  }
  EXPECT_GT(cacheStats(engine).spill_errors, 0u);
  EXPECT_EQ(cacheStats(engine).spill_entries, 0u);
  TestEngine refused;
  EXPECT_EQ(refused.open(model, change), K3RT_IO_ERROR);
  EXPECT_NE(refused.error.find("cannot write here"), std::string::npos);
}

TEST_F(PrefixCacheTest, SnapshotsAsFiles) {
  std::string path = folder.path("a.k3s");
  Tokens tokens = prompt(11, 70);
  {
    TestEngine engine(model);
    k3rt_sequence sequence = engine.create();
    engine.feed(sequence, tokens);
    ASSERT_EQ(k3rt_snapshot_save(engine.engine, engine.snapshot(sequence),
                                 path.c_str()),
              K3RT_OK)
        << engine.last();
  }
  TestEngine engine(model, [](auto &o) { o.poison = 1; });
  k3rt_snapshot loaded;
  ASSERT_EQ(k3rt_snapshot_load(engine.engine, path.c_str(), &loaded), K3RT_OK)
      << engine.last();
  k3rt_sequence sequence = engine.create();
  engine.restore(sequence, loaded);
  Oracle oracle = after(tokens);
  EXPECT_EQ(engine.length(sequence), 11u);
  EXPECT_EQ(engine.states(sequence), statesOf(oracle));
  EXPECT_EQ(engine.feed(sequence, {4}), oracle.next(4));

  // Cut at every length, and with every byte changed.
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::string bad = folder.path("bad.k3s");
  auto refuse = [&](const std::string &contents) {
    std::ofstream(bad, std::ios::binary) << contents;
    k3rt_snapshot none;
    k3rt_status status = k3rt_snapshot_load(engine.engine, bad.c_str(), &none);
    EXPECT_EQ(status, K3RT_BAD_ARTIFACT);
    EXPECT_EQ(engine.last().rfind(bad + ": ", 0), 0u) << engine.last();
  };
  for (size_t length = 0; length < bytes.size(); length += 1 + length / 16)
    refuse(bytes.substr(0, length));
  refuse(bytes + "x");
  for (size_t i = 0; i < bytes.size(); ++i) {
    // Zeros between tokens and state mean nothing.
    if (i >= 64 + 44 && i < 128)
      continue;
    std::string changed = bytes;
    changed[i] = char(changed[i] ^ (1 << i % 8));
    refuse(changed);
  }
  k3rt_snapshot none;
  EXPECT_EQ(k3rt_snapshot_load(engine.engine, "/nonexistent/x", &none),
            K3RT_IO_ERROR);
  EXPECT_EQ(k3rt_snapshot_save(engine.engine, loaded, "/nonexistent/x"),
            K3RT_IO_ERROR);
  EXPECT_EQ(k3rt_snapshot_save(engine.engine, 99, path.c_str()),
            K3RT_INVALID_ARGUMENT);
}

// Another model's state, even one of the same shape, is refused.
TEST_F(PrefixCacheTest, SnapshotsBelongToTheirModel) {
  std::string path = folder.path("a.k3s");
  TestEngine engine(model);
  ASSERT_EQ(k3rt_snapshot_save(engine.engine, engine.snapshot(engine.create()),
                               path.c_str()),
            K3RT_OK);
  Folder other;
  toy::Model changed = make();
  changed.weightBytes[0] = char(changed.weightBytes[0] ^ 1);
  TestEngine stranger(other.write("model.k3a", serialize(changed)));
  k3rt_snapshot none;
  EXPECT_EQ(k3rt_snapshot_load(stranger.engine, path.c_str(), &none),
            K3RT_BAD_ARTIFACT);
  EXPECT_NE(stranger.last().find("saved by another model"), std::string::npos);
  // The size of its pages is not part of a state.
  toy::Options pages;
  pages.pageTokens = 8;
  TestEngine sibling(writeModel(other, pages));
  EXPECT_EQ(k3rt_snapshot_load(sibling.engine, path.c_str(), &none), K3RT_OK)
      << sibling.last();
}

// Any order of requests, stores, forks and frees against sequences run alone.
TEST_F(PrefixCacheTest, OutputsNeverDependOnTheCache) {
  std::mt19937 random(46);
  std::filesystem::create_directory(folder.path("spill"));
  std::string spill = folder.path("spill");
  TestEngine engine(model, [&](auto &o) {
    o.max_sequences = 6;
    o.max_context = 48;
    o.poison = 1;
    o.prefix_cache_bytes = 6000;
    o.prefix_spill_dir = spill.c_str();
    o.prefix_spill_bytes = 6000;
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
  EXPECT_GT(cacheStats(engine).evictions, 50u);
  EXPECT_GT(cacheStats(engine).spill_loads, 10u);
  for (Live &each : live) {
    EXPECT_EQ(engine.states(each.sequence), statesOf(each.oracle));
    engine.free(each.sequence);
  }
}

} // namespace
