//===- TokenTreeTest.cpp - the tree against a plain list -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/cache/TokenTree.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace k3rt;

namespace {

using Tokens = std::vector<int32_t>;

TEST(TokenTreeTest, EmptyTreeKnowsNothing) {
  TokenTree tree;
  Tokens tokens = {1, 2, 3};
  EXPECT_FALSE(tree.findLongest(tokens.data(), tokens.size()));
  EXPECT_FALSE(tree.findLongest(tokens.data(), 0));
  EXPECT_EQ(tree.numNodes(), 1u);
}

// Half of an edge is no entry: a request that shares 50 of 64 tokens reuses
// nothing.
TEST(TokenTreeTest, PartOfAnEntryIsNoEntry) {
  TokenTree tree;
  Tokens stored(64, 7), asked(64, 7);
  tree.insert(stored.data(), stored.size(), 5);
  asked[50] = 8;
  EXPECT_FALSE(tree.findLongest(asked.data(), asked.size()));
  EXPECT_FALSE(tree.findLongest(stored.data(), 63));
  EXPECT_EQ(tree.findLongest(stored.data(), 64), 5u);
  EXPECT_FALSE(tree.find(stored.data(), 63));
  EXPECT_EQ(tree.find(stored.data(), 64), 5u);
}

// Few distinct tokens, so that entries share prefixes, split edges and lie
// inside each other.
TEST(TokenTreeTest, AgreesWithAList) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    TokenTree tree;
    std::map<uint32_t, Tokens> model;
    uint32_t nextEntry = 0;
    for (int operation = 0; operation < 400; ++operation) {
      Tokens tokens(1 + random() % 12);
      for (int32_t &token : tokens)
        token = int32_t(random() % 2);
      bool known = false;
      std::optional<uint32_t> longest;
      uint64_t best = 0;
      for (const auto &[entry, stored] : model) {
        known |= stored == tokens;
        if (stored.size() <= tokens.size() && stored.size() > best &&
            std::equal(stored.begin(), stored.end(), tokens.begin())) {
          best = stored.size();
          longest = entry;
        }
      }
      ASSERT_EQ(tree.findLongest(tokens.data(), tokens.size()), longest);
      ASSERT_EQ(tree.find(tokens.data(), tokens.size()).has_value(), known);
      if (random() % 3 != 0) {
        if (!known) {
          tree.insert(tokens.data(), tokens.size(), nextEntry);
          ASSERT_EQ(tree.lengthBefore(nextEntry), best);
          model[nextEntry++] = tokens;
        }
      } else if (!model.empty()) {
        auto victim = std::next(model.begin(), long(random() % model.size()));
        ASSERT_EQ(tree.tokensOf(victim->first), victim->second);
        tree.erase(victim->first);
        model.erase(victim);
      }
      // Entries, branches between them, and the root.
      ASSERT_LE(tree.numNodes(), 2 * model.size() + 1);
    }
    while (!model.empty()) {
      tree.erase(model.begin()->first);
      model.erase(model.begin());
    }
    EXPECT_EQ(tree.numNodes(), 1u);
  }
}

} // namespace
