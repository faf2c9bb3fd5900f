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
  EXPECT_EQ(attnResWeights(p, 1, w, query, 1e-5, {3, 5}), Vec(3, 1.0));
  EXPECT_EQ(attnResMix(p, 1, w, query, 1e-5, {3, 5}), p);
}

TEST(AttnRes, ZeroQueryAveragesRawSources) { // public fault R05
  for (Index sources : {1, 2, 9}) {
    Random random(2);
    Vec stream = random.normal(9 * 2 * 4, 3), w = random.normal(4);
    Vec out = attnResMix(stream, sources, w, Vec(4), 1e-5, {2, 4}), expected(8);
    for (Index s = 0; s < sources; ++s)
      for (Index i = 0; i < 8; ++i)
        expected[i] += stream[s * 8 + i] / sources;
    EXPECT_LT(maxDifference(out, expected), 1e-14);
  }
}

TEST(AttnRes, HandComputedMix) { // two sources (3,4) and (0,2) with eps 0: keys (3,4)/sqrt(12.5) and (0,2)/sqrt(2)
  Vec stream{3, 4, 0, 2}, norm{1, 2}, query{1, 0.5};
  Vec weights = attnResWeights(stream, 2, norm, query, 0, {1, 2});
  double first = std::exp(7 / std::sqrt(12.5)), second = std::exp(2 / std::sqrt(2.0)), sum = first + second;
  EXPECT_LT(maxDifference(weights, Vec{first / sum, second / sum}), 1e-14);
  Vec out = attnResMix(stream, 2, norm, query, 0, {1, 2});
  EXPECT_LT(maxDifference(out, Vec{3 * first / sum, (4 * first + 2 * second) / sum}), 1e-14);
}

TEST(AttnRes, SlotsPastTheSourcesAreNotRead) {
  Vec w{1, 1}, query{1, -1};
  Vec out = attnResMix(Vec{1, 2, 3, 4, NAN, NAN}, 2, w, query, 1e-5, {1, 2});
  EXPECT_EQ(out, attnResMix(Vec{1, 2, 3, 4}, 2, w, query, 1e-5, {1, 2}));
  EXPECT_DEATH(attnResMix(Vec{1, 2}, 2, w, query, 1e-5, {1, 2}), "fewer slots");
}

TEST(AttnRes, LargeLogitsStayFinite) {
  Random random(3);
  Vec stream = random.normal(9 * 64, 1e3), w(64, 1.0), query(64, 1e3);
  Vec weights = attnResWeights(stream, 9, w, query, 1e-5, {1, 64});
  double sum = 0;
  for (double a : weights)
    sum += a;
  EXPECT_NEAR(sum, 1, 1e-14);
}

TEST(AttnRes, AccumulateAddsOrStarts) {
  Vec stream{1, 2, 3, 4, NAN, NAN};
  attnResAccumulate(stream, 1, Vec{10, 20}, false, {1, 2});
  attnResAccumulate(stream, 2, Vec{5, 6}, true, {1, 2}); // what was there does not matter
  EXPECT_EQ(stream, (Vec{1, 2, 13, 24, 5, 6}));
}
