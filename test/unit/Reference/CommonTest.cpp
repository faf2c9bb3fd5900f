//===- CommonTest.cpp - Embedding, linear, norms and gated units ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"
#include "TestSupport.h"

using namespace k3::ref;
using namespace k3::ref::test;

TEST(Common, EmbedPicksRows) {
  EXPECT_EQ(embed(Vec{1, 2, 3, 4, 5, 6}, std::vector<std::int32_t>{2, 0, 2}, 2), (Vec{5, 6, 1, 2, 5, 6}));
  EXPECT_TRUE(embed(Vec{1, 2}, std::vector<std::int32_t>{}, 2).empty());
  EXPECT_DEATH(embed(Vec{1, 2}, std::vector<std::int32_t>{1}, 2), "outside the vocabulary");
}

TEST(Common, LinearIsRowTimesTransposed) {
  // x = [[1,2,3],[0,-1,1]], w = [[1,0,2],[3,1,1]]
  EXPECT_EQ(linear(Vec{1, 2, 3, 0, -1, 1}, Vec{1, 0, 2, 3, 1, 1}, 2, 3, 2), (Vec{7, 8, 2, 0}));
}

TEST(Common, FloatsAreWidened) {
  std::vector<float> x{0.1f, 0.2f};
  EXPECT_EQ(dot(x, x), double(0.1f) * 0.1f + double(0.2f) * 0.2f);
}

TEST(Common, RmsNormAddsEpsToTheMean) {
  Vec y = rmsNorm(Vec{3, 4, 0, 0}, Vec{1, 2}, 2, 2, 0.5);
  EXPECT_DOUBLE_EQ(y[0], 3 / std::sqrt(13.0));
  EXPECT_DOUBLE_EQ(y[1], 8 / std::sqrt(13.0));
  EXPECT_EQ(y[2], 0);
}

TEST(Common, L2NormEpsIsInsideTheRootOnTheSum) { // public fault N06
  Vec y = l2Norm(Vec(128, 1e-4), 1, 128);
  for (double v : y)
    EXPECT_NEAR(v, 0.066227, 5e-7);
  for (double v : l2Norm(Vec(128, 0.0), 1, 128))
    EXPECT_EQ(v, 0);
}

TEST(Common, ScalarFunctionsAtTheirLimits) {
  EXPECT_EQ(sigmoid(0), 0.5);
  EXPECT_EQ(sigmoid(-1e4), 0);
  EXPECT_EQ(sigmoid(1e4), 1);
  EXPECT_DOUBLE_EQ(softplus(0), std::log(2.0));
  EXPECT_EQ(softplus(1000), 1000);
  EXPECT_NEAR(softplus(-30), std::exp(-30.0), 1e-26); // log(1 + e) would lose nearly every digit
  EXPECT_DOUBLE_EQ(silu(2), 2 / (1 + std::exp(-2.0)));
}

TEST(Common, SituCapsBothHalvesButNotTheSigmoid) {
  Activation situ{Activation::Situ, 4, 25};
  Vec y = glu(Vec{1.0, 8.0, 1e3, -1e3}, Vec{2.0, -50.0, 1e4, 1e4}, situ);
  EXPECT_NEAR(y[0], 4 * std::tanh(0.25) / (1 + std::exp(-1.0)) * 25 * std::tanh(0.08), 1e-14);
  EXPECT_NEAR(y[1], 4 * std::tanh(2.0) / (1 + std::exp(-8.0)) * 25 * std::tanh(-2.0), 1e-13);
  EXPECT_DOUBLE_EQ(y[2], 100);
  EXPECT_EQ(y[3], 0);
}

TEST(Common, SwiGlu) { EXPECT_DOUBLE_EQ(glu(Vec{2.0}, Vec{3.0}, {})[0], 6 / (1 + std::exp(-2.0))); }

TEST(Common, SigmoidGate) { EXPECT_EQ(sigmoidGate(Vec{4, 5}, Vec{0, 1e4}), (Vec{2, 5})); }
