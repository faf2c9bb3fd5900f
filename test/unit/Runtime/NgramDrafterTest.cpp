//===- NgramDrafterTest.cpp - drafts from earlier text -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/speculation/NgramDrafter.h"

#include <gtest/gtest.h>
#include <random>

using namespace k3rt;

namespace {

using Tokens = std::vector<int32_t>;

Tokens draftAfter(const Tokens &history, uint32_t count,
                  uint32_t longest = 2) {
  NgramDrafter drafter(longest, 2);
  drafter.observe(history.data(), history.size());
  return drafter.draft(count);
}

TEST(NgramDrafterTest, NothingWithoutARepetition) {
  EXPECT_EQ(draftAfter({}, 4), Tokens());
  EXPECT_EQ(draftAfter({1}, 4), Tokens());
  EXPECT_EQ(draftAfter({1, 2, 3, 4, 5}, 4), Tokens());
  // One token in common is too little.
  EXPECT_EQ(draftAfter({1, 2, 3, 1}, 4), Tokens());
}

TEST(NgramDrafterTest, TakesWhatFollowed) {
  EXPECT_EQ(draftAfter({1, 2, 3, 4, 5, 1, 2}, 4), (Tokens{3, 4, 5, 1}));
  EXPECT_EQ(draftAfter({1, 2, 3, 4, 5, 1, 2}, 2), (Tokens{3, 4}));
  // Round and round where the history ends.
  EXPECT_EQ(draftAfter({7, 7, 7}, 4), (Tokens{7, 7, 7, 7}));
  EXPECT_EQ(draftAfter({1, 2, 3, 1, 2}, 7), (Tokens{3, 1, 2, 3, 1, 2, 3}));
}

TEST(NgramDrafterTest, LongerAndLaterMatchesFirst) {
  // "2 3" was followed by 9 lately, but "1 2 3" by 4.
  EXPECT_EQ(draftAfter({1, 2, 3, 4, 8, 2, 3, 9, 1, 2, 3}, 1, 4), (Tokens{4}));
  EXPECT_EQ(draftAfter({2, 3, 4, 8, 2, 3, 9, 7, 2, 3}, 1, 4), (Tokens{9}));
}

TEST(NgramDrafterTest, SeldomTriesWhatFails) {
  NgramDrafter drafter(2, 1);
  Tokens repeated(64, 5);
  drafter.observe(repeated.data(), repeated.size());
  int drafts = 0;
  for (int i = 0; i < 320; ++i) {
    Tokens draft = drafter.draft(4);
    drafts += !draft.empty();
    drafter.report(uint32_t(draft.size()), 0);
  }
  EXPECT_GE(drafts, 5);
  EXPECT_LE(drafts, 9);
  // Success brings it back.
  for (int i = 0; i < 200; ++i) {
    Tokens draft = drafter.draft(4);
    drafter.report(uint32_t(draft.size()), uint32_t(draft.size()));
  }
  EXPECT_FALSE(drafter.draft(4).empty());
  EXPECT_FALSE(drafter.draft(4).empty());
}

// Drafts grow while they are right, and shrink to what was.
TEST(NgramDrafterTest, LengthFollowsSuccess) {
  NgramDrafter drafter(3, 2);
  Tokens repeated(8, 5);
  drafter.observe(repeated.data(), repeated.size());
  EXPECT_EQ(drafter.draft(16).size(), 16u); // the longest match there is
  drafter.report(16, 4);
  EXPECT_EQ(drafter.draft(16).size(), 5u);
  drafter.report(5, 5);
  EXPECT_EQ(drafter.draft(16).size(), 10u);
  drafter.report(10, 10);
  EXPECT_EQ(drafter.draft(16).size(), 16u);
  drafter.report(16, 0);
  EXPECT_EQ(drafter.draft(16).size(), 2u);
}

// What short matches did not say, long ones may.
TEST(NgramDrafterTest, LengthsAreJudgedApart) {
  NgramDrafter drafter(4, 2);
  Tokens history = {1, 2, 3, 4, 5, 9, 3, 4};
  drafter.observe(history.data(), history.size());
  int drafts = 0;
  for (int i = 0; i < 20; ++i) {
    Tokens draft = drafter.draft(3);
    drafts += !draft.empty();
    drafter.report(uint32_t(draft.size()), 0);
  }
  EXPECT_LT(drafts, 8);
  EXPECT_TRUE(drafter.draft(3).empty());
  Tokens more = {8, 1, 2, 3, 4};
  drafter.observe(more.data(), more.size());
  EXPECT_EQ(drafter.draft(3), (Tokens{5, 9, 3}));
}

// Against a plain search, and in pieces of any size.
TEST(NgramDrafterTest, AgreesWithASearch) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Tokens history(random() % 60);
    for (int32_t &token : history)
      token = int32_t(random() % 4);
    NgramDrafter drafter(3, 2);
    for (size_t i = 0; i < history.size();) {
      size_t piece = std::min<size_t>(1 + random() % 9, history.size() - i);
      drafter.observe(history.data() + i, piece);
      i += piece;
    }
    Tokens want;
    for (size_t n = 3; n >= 2 && want.empty(); --n)
      for (size_t end = history.size() - 1; end >= n && end < history.size();
           --end)
        if (std::equal(history.end() - long(n), history.end(),
                       history.begin() + long(end - n))) {
          Tokens going = history;
          for (size_t i = 0; i < 5; ++i)
            going.push_back(going[end + i]);
          want.assign(going.end() - 5, going.end());
          if (n < 3) // the first draft of a short match
            want.resize(2);
          break;
        }
    ASSERT_EQ(drafter.draft(5), want);
  }
}

} // namespace
