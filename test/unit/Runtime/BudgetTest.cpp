//===- BudgetTest.cpp - who gets how many rows of a step -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/serve/Budget.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace k3rt;

namespace {

using Rows = std::vector<uint64_t>;

Demand decode(uint64_t lastServed = 0) { return {1, true, lastServed}; }
Demand promptOf(uint64_t tokens) { return {tokens, false, 0}; }

Rows share(const std::vector<Demand> &demands, uint64_t budget) {
  Rows rows;
  shareBudget(demands, budget, rows);
  return rows;
}

TEST(Budget, DecodesAreNotStoppedByPrompts) {
  EXPECT_EQ(share({promptOf(1000), decode(), decode(), promptOf(9)}, 64),
            (Rows{62, 1, 1, 0}));
  EXPECT_EQ(share({promptOf(10), decode(), promptOf(100)}, 64),
            (Rows{10, 1, 53}));
  EXPECT_EQ(share({decode(), decode()}, 64), (Rows{1, 1}));
  EXPECT_EQ(share({}, 64), Rows());
}

TEST(Budget, PromptsAreNotStoppedByDecodes) {
  std::vector<Demand> demands(8, decode());
  demands.push_back(promptOf(100));
  EXPECT_EQ(share(demands, 8), (Rows{1, 1, 1, 1, 1, 1, 0, 0, 2}));
  demands.back().tokens = 1; // leaves the rest of its quarter
  EXPECT_EQ(share(demands, 8), (Rows{1, 1, 1, 1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(share({decode(), decode(), promptOf(5)}, 2), (Rows{1, 0, 1}));
}

TEST(Budget, DecodesThatWaitedLongestComeFirst) {
  EXPECT_EQ(share({decode(5), decode(3), decode(4), decode(3)}, 2),
            (Rows{0, 1, 0, 1}));
}

// Tokens to be run again come with the newest one or not at all.
TEST(Budget, DecodesAreWhole) {
  auto again = [](uint64_t tokens, uint64_t lastServed) {
    return Demand{tokens, true, lastServed};
  };
  EXPECT_EQ(share({again(3, 0), decode(), promptOf(9)}, 8), (Rows{3, 1, 4}));
  EXPECT_EQ(share({again(4, 2), decode(1), again(4, 3)}, 8), (Rows{4, 1, 0}));
  EXPECT_EQ(share({again(4, 2), decode(1), again(4, 1)}, 8), (Rows{0, 1, 4}));
  // The first in the line always comes, whatever prompts there are.
  EXPECT_EQ(share({decode(5), again(4, 1), promptOf(99)}, 8),
            (Rows{1, 4, 3}));
}

TEST(Budget, OneRow) {
  EXPECT_EQ(share({promptOf(5), decode()}, 1), (Rows{0, 1}));
  EXPECT_EQ(share({promptOf(5), promptOf(5)}, 1), (Rows{1, 0}));
}

// The budget is used up as long as there is demand, and nobody waits for ever.
TEST(Budget, NobodyStarves) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    uint64_t budget = 2 + random() % 20;
    std::vector<Demand> demands(1 + random() % 30);
    for (Demand &demand : demands)
      demand = random() % 2 ? decode() : promptOf(1 + random() % 50);
    for (uint64_t step = 1; step < 1600; ++step) {
      uint64_t wanted = 0;
      for (const Demand &demand : demands)
        wanted += demand.tokens;
      Rows rows = share(demands, budget);
      ASSERT_EQ(std::accumulate(rows.begin(), rows.end(), uint64_t(0)),
                std::min(budget, wanted));
      for (size_t i = 0; i < demands.size(); ++i) {
        ASSERT_LE(rows[i], demands[i].tokens);
        if (rows[i] == 0)
          continue;
        demands[i].lastServed = step;
        if (!demands[i].decode)
          demands[i].tokens -= rows[i];
        demands[i].decode |= demands[i].tokens == 0;
        if (demands[i].decode)
          demands[i].tokens = 1;
      }
    }
    for (size_t i = 0; i < demands.size(); ++i) {
      EXPECT_TRUE(demands[i].decode) << "a prompt was not finished";
      EXPECT_GT(demands[i].lastServed, 1600 - 31u); // at most 30 decodes
    }
  }
}

} // namespace
