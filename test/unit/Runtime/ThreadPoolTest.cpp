//===- ThreadPoolTest.cpp - runs short parallel loops --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/ThreadPool.h"

#include <gtest/gtest.h>
#include <numeric>
#include <unistd.h>
#include <vector>

using namespace k3rt;

namespace {

TEST(ThreadPool, EveryItemOnce) {
  for (uint32_t threads : {1, 2, 3, 4, 9}) {
    ThreadPool pool;
    ASSERT_TRUE(pool.start(threads).ok());
    ASSERT_EQ(pool.threads(), threads);
    for (uint32_t items : {0, 1, 2, 3, 7, 64, 1000, 4099}) {
      std::vector<int> seen(items);
      std::atomic<bool> threadsInRange{true};
      pool.parallelFor(items,
                       [&](uint32_t first, uint32_t last, uint32_t thread) {
                         if (thread >= threads || first >= last || last > items)
                           threadsInRange = false;
                         for (uint32_t i = first; i < last; ++i)
                           ++seen[i];
                       });
      EXPECT_TRUE(threadsInRange);
      EXPECT_EQ(seen, std::vector<int>(items, 1));
    }
  }
}

// Each loop reads, without atomics, what the one before wrote.
TEST(ThreadPool, LoopsFollowEachOther) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(4).ok());
  std::vector<uint64_t> from(64, 1), to(64);
  for (uint64_t round = 1; round <= 20000; ++round) {
    pool.parallelFor(64, [&](uint32_t first, uint32_t last, uint32_t) {
      for (uint32_t i = first; i < last; ++i)
        to[i] = from[(i + 17) % 64] + 1;
    });
    std::swap(from, to);
    if (from[round % 64] != round + 1)
      FAIL() << "round " << round << ": " << from[round % 64];
  }
  EXPECT_EQ(from, std::vector<uint64_t>(64, 20001));
}

// What a thread works on first is the same in every loop; the others leave it alone while they have work of their own.
TEST(ThreadPool, ThreadsBeginWithTheirShares) {
  constexpr uint32_t threads = 4, items = 64;
  ThreadPool pool;
  ASSERT_TRUE(pool.start(threads).ok());
  for (int round = 0; round < 100; ++round) {
    std::vector<uint32_t> first(threads, items);
    std::atomic<uint32_t> waiting{threads};
    pool.parallelFor(items, [&](uint32_t begin, uint32_t, uint32_t thread) {
      if (first[thread] != items)
        return;
      first[thread] = begin;
      // Until all have begun, so that nobody has time to take what is another's.
      for (--waiting; waiting != 0;)
        usleep(10);
    });
    EXPECT_EQ(first, (std::vector<uint32_t>{0, 16, 32, 48}));
  }
}

// One that is held up loses the rest of its share to the others, from its end.
TEST(ThreadPool, SharesOfSlowThreadsAreTaken) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(2).ok());
  for (int round = 0; round < 10; ++round) {
    std::vector<uint32_t> by(8, 9);
    std::atomic<bool> begun{false};
    std::atomic<int> rest{7};
    pool.parallelFor(8, [&](uint32_t begin, uint32_t end, uint32_t thread) {
      for (uint32_t i = begin; i < end; ++i)
        by[i] = thread;
      if (begin == 4) {
        begun = true;
        while (rest != 0)
          usleep(10);
        return;
      }
      while (!begun)
        usleep(10);
      rest -= int(end - begin);
    });
    EXPECT_EQ(by, (std::vector<uint32_t>{0, 0, 0, 0, 1, 0, 0, 0}));
  }
}

// Long enough apart that the workers have gone to sleep.
TEST(ThreadPool, SleepersWake) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(3).ok());
  for (int round = 0; round < 50; ++round) {
    usleep(1000);
    std::atomic<uint32_t> sum{0};
    pool.parallelFor(100, [&](uint32_t first, uint32_t last, uint32_t) {
      for (uint32_t i = first; i < last; ++i)
        sum += i;
    });
    ASSERT_EQ(sum, 4950u);
  }
}

// The caller is done first and has to wait for a slow worker, asleep.
TEST(ThreadPool, CallerWaitsForSlowItems) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(2).ok());
  for (int round = 0; round < 10; ++round) {
    std::atomic<uint32_t> done{0};
    pool.parallelFor(2, [&](uint32_t first, uint32_t last, uint32_t thread) {
      for (uint32_t i = first; i < last; ++i) {
        usleep(thread == 0 ? 500 : 3000);
        ++done;
      }
    });
    ASSERT_EQ(done, 2u);
  }
}

TEST(ThreadPool, StopAndStartAgain) {
  ThreadPool pool;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(pool.start(4).ok());
    std::atomic<int> calls{0};
    pool.parallelFor(8, [&](uint32_t first, uint32_t last, uint32_t) {
      calls += int(last - first);
    });
    EXPECT_EQ(calls, 8);
    pool.stop();
    EXPECT_EQ(pool.threads(), 1u);
  }
}

} // namespace
