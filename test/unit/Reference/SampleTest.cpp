//===- SampleTest.cpp - the choice of a token -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Sample.h"
#include "TestSupport.h"

#include <cmath>

using namespace k3::ref;
using namespace k3::ref::test;

namespace {

/// Logits of given probabilities.
Vec logitsOf(const Vec &probabilities) {
  Vec logits;
  for (double p : probabilities)
    logits.push_back(std::log(p));
  return logits;
}

TEST(Sample, TokensLieByRisingId) {
  Vec logits = logitsOf({0.25, 0.5, 0.25});
  EXPECT_EQ(sample(logits, {}, 0).id, 0);
  EXPECT_EQ(sample(logits, {}, 0.2).id, 0);
  EXPECT_EQ(sample(logits, {}, 0.3).id, 1);
  EXPECT_EQ(sample(logits, {}, 0.7).id, 1);
  EXPECT_EQ(sample(logits, {}, 0.8).id, 2);
  EXPECT_NEAR(sample(logits, {}, 0.3).margin, 0.05, 1e-12);
  EXPECT_NEAR(sample(logits, {}, 0.7).margin, 0.05, 1e-12);
}

TEST(Sample, FiltersLieByFallingLogit) {
  Vec logits = logitsOf({0.1, 0.4, 0.2, 0.3});
  SampleRule topK;
  topK.topK = 2; // 1 and 3 with 4/7 and 3/7
  EXPECT_EQ(sample(logits, topK, 0.56).id, 1);
  EXPECT_EQ(sample(logits, topK, 0.58).id, 3);
  topK.topK = 4; // leaves all where they are
  EXPECT_EQ(sample(logits, topK, 0.05).id, 0);
  SampleRule topP;
  topP.topP = 0.75; // 1, 3 and 2 with 4/9, 3/9 and 2/9
  EXPECT_EQ(sample(logits, topP, 0.4).id, 1);
  EXPECT_EQ(sample(logits, topP, 0.7).id, 3);
  EXPECT_EQ(sample(logits, topP, 0.9).id, 2);
  EXPECT_NEAR(sample(logits, topP, 0.5).margin, 0.05, 1e-12); // 0.7 does not reach 0.75
}

TEST(Sample, LeastProbabilityIsThatOfTheLikeliestTimesMinP) {
  Vec logits = logitsOf({0.1, 0.4, 0.2, 0.3});
  SampleRule rule;
  rule.minP = 0.6; // 1 and 3 stay, by rising id
  EXPECT_EQ(sample(logits, rule, 0).id, 1);
  EXPECT_EQ(sample(logits, rule, 0.99).id, 3);
  rule.minP = 1;
  EXPECT_EQ(sample(logits, rule, 0.99).id, 1);
}

TEST(Sample, EqualLogitsGoByTheLowerId) {
  Vec logits{1, 2, 2, -3};
  SampleRule rule;
  rule.temperature = 0;
  EXPECT_EQ(sample(logits, rule, 0).id, 1);
  rule.banned = {1};
  EXPECT_EQ(sample(logits, rule, 0).id, 2);
  rule = {};
  rule.topK = 1;
  EXPECT_EQ(sample(logits, rule, 0.99).id, 1);
}

TEST(Sample, TemperatureFlattens) {
  Vec logits{0, std::log(16.0)}; // at temperature 2: 1 to 4
  SampleRule rule;
  rule.temperature = 2;
  EXPECT_EQ(sample(logits, rule, 0.19).id, 0);
  EXPECT_EQ(sample(logits, rule, 0.21).id, 1);
}

TEST(Sample, NothingToChoose) {
  SampleRule rule;
  EXPECT_EQ(sample(Vec{1, NAN}, rule, 0.5).id, -1);
  EXPECT_EQ(sample(Vec{1, INFINITY}, rule, 0.5).id, -1);
  rule.banned = {1};
  EXPECT_EQ(sample(Vec{1, -INFINITY}, rule, 0.5).id, -1);
  rule.banned = {0, 1};
  EXPECT_EQ(sample(Vec{1, 2}, rule, 0.5).id, -1);
}

} // namespace
