//===- AttnResTest.cpp - Block Attention Residuals ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/AttnRes.h"
#include "TestSupport.h"

using namespace k3::ref;
using namespace k3::ref::test;

TEST(AttnRes, OneSourceIsTakenAsItIs) { // public fault R02: layer 0 sees exactly the embedding
  Random random(1);
  Vec p = random.normal(3 * 5), w = random.normal(5), query = random.normal(5);
  EXPECT_EQ(attnResWeights({{}, 0, p, 3, 5}, w, query, 1e-5), Vec(3, 1.0));
  EXPECT_EQ(attnResMix({{}, 0, p, 3, 5}, w, query, 1e-5), p);
  EXPECT_EQ(attnResMix({p, 1, {}, 3, 5}, w, query, 1e-5), p);
}

TEST(AttnRes, ZeroQueryAveragesRawSources) { // public fault R05
  for (Index count : {1, 8}) {
    Random random(2);
    Vec stack = random.normal(8 * 2 * 4, 3), p = random.normal(2 * 4), w = random.normal(4);
    Vec out = attnResMix({stack, count, p, 2, 4}, w, Vec(4), 1e-5), expected = p;
    for (Index s = 0; s < count; ++s)
      for (Index i = 0; i < 8; ++i)
        expected[i] += stack[s * 8 + i];
    for (double &x : expected)
      x /= count + 1;
    EXPECT_LT(maxDifference(out, expected), 1e-14);
  }
}

TEST(AttnRes, HandComputedMix) { // two sources (3,4) and (0,2) with eps 0: keys (3,4)/sqrt(12.5) and (0,2)/sqrt(2)
  Vec norm{1, 2}, query{1, 0.5};
  Vec weights = attnResWeights({Vec{3, 4}, 1, Vec{0, 2}, 1, 2}, norm, query, 0);
  double first = std::exp(7 / std::sqrt(12.5)), second = std::exp(2 / std::sqrt(2.0)), sum = first + second;
  EXPECT_LT(maxDifference(weights, Vec{first / sum, second / sum}), 1e-14);
  Vec out = attnResMix({Vec{3, 4}, 1, Vec{0, 2}, 1, 2}, norm, query, 0);
  EXPECT_LT(maxDifference(out, Vec{3 * first / sum, (4 * first + 2 * second) / sum}), 1e-14);
}

TEST(AttnRes, SlotsPastTheCountAreNotRead) {
  Vec stack{1, 2, NAN, NAN}, p{3, 4}, w{1, 1}, query{1, -1};
  Vec out = attnResMix({stack, 1, p, 1, 2}, w, query, 1e-5);
  EXPECT_EQ(out, attnResMix({Vec{1, 2}, 1, p, 1, 2}, w, query, 1e-5));
}

TEST(AttnRes, ManySourcesAndLargeLogitsStayFinite) {
  Random random(3);
  Vec stack = random.normal(8 * 64, 1e3), p = random.normal(64, 1e-3), w(64, 1.0), query(64, 1e3);
  Vec weights = attnResWeights({stack, 8, p, 1, 64}, w, query, 1e-5);
  double sum = 0;
  for (double a : weights)
    sum += a;
  EXPECT_NEAR(sum, 1, 1e-14);
}
