//===- LatentMoeTest.cpp - Router, grouped experts, LatentMoE block -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/LatentMoe.h"
#include "TestSupport.h"

using namespace k3::ref;
using namespace k3::ref::test;

using Ints = std::vector<std::int32_t>;

static RouteOptions k3Router() { return {896, 16, true, 1.0}; }

TEST(Route, TinyDifferenceDecides) { // public fault E01: bf16 would make it a tie
  for (Index tokens : {1, 8, 512}) {
    Vec logits(tokens * 896), bias(896);
    for (Index t = 0; t < tokens; ++t)
      logits[t * 896 + 895] = 1e-4;
    Routing r = route(logits, bias, tokens, k3Router());
    for (Index t = 0; t < tokens; ++t)
      EXPECT_EQ(r.ids[t * 16], 895);
  }
}

TEST(Route, BiasChoosesButDoesNotWeigh) { // public fault E03
  Vec bias(896);
  bias[500] = 10;
  Routing r = route(Vec(896), bias, 1, k3Router());
  EXPECT_EQ(r.ids[0], 500);
  for (double w : r.weights)
    EXPECT_NEAR(w, 1.0 / 16, 1e-15);
}

TEST(Route, TiesGoToTheLowerId) { // public fault E08
  Routing r = route(Vec(3 * 896), Vec(896), 3, k3Router());
  for (Index i = 0; i < 48; ++i) {
    EXPECT_EQ(r.ids[i], i % 16);
    EXPECT_NEAR(r.weights[i], 1.0 / 16, 1e-15);
  }
  EXPECT_EQ(r.margin, Vec(3));
}

TEST(Route, ScalingRenormalisationAndMargin) {
  Vec logits{std::log(3.0), 0, -std::log(3.0)}; // scores 3/4, 1/2, 1/4
  Routing r = route(logits, Vec{0, 0, 0.4}, 1, {3, 2, true, 2.446});
  EXPECT_EQ(r.ids, (Ints{0, 2}));
  EXPECT_LT(maxDifference(r.weights, Vec{0.75 * 2.446, 0.25 * 2.446}), 1e-14);
  EXPECT_NEAR(r.margin[0], 0.65 - 0.5, 1e-14);
  r = route(logits, {}, 1, {3, 2, false, 2});
  EXPECT_LT(maxDifference(r.weights, Vec{1.5, 1}), 1e-14);
  EXPECT_TRUE(std::isinf(route(logits, {}, 1, {3, 3, true, 1}).margin[0]));
}

TEST(Plan, StableCountingSort) {
  MoePlan plan = planExperts(Ints{3, 1, 1, 3, 0, 1}, 5);
  EXPECT_EQ(plan.offsets, (Ints{0, 1, 4, 4, 6, 6})); // experts 2 and 4 are empty
  EXPECT_EQ(plan.perm, (Ints{4, 1, 2, 5, 0, 3}));
  EXPECT_EQ(planExperts(Ints{}, 2).offsets, (Ints{0, 0, 0}));
  EXPECT_EQ(planExperts(Ints{1, 1, 1}, 2).offsets, (Ints{0, 0, 3}));
  EXPECT_DEATH(planExperts(Ints{2}, 2), "out of range");
}

TEST(GroupedContract, EachSlotMeetsItsExpert) {
  MoePlan plan = planExperts(Ints{2, 0, 0, 2}, 3); // two tokens, two choices each
  Vec one{1, 0}, unread{NAN, NAN}, three{0, 10};
  std::vector<View> w{one, unread, three}; // [1,2] each
  EXPECT_EQ(groupedContract(Vec{1, 2, 3, 4}, plan, w, 2, 2, 1), (Vec{20, 1, 3, 40}));
  EXPECT_EQ(groupedContract(Vec{1, 2, 3, 4, 5, 6, 7, 8}, plan, w, 2, 2, 1), (Vec{20, 3, 5, 80}));
}

TEST(Combine, SumsChoicesOfEachToken) {
  EXPECT_EQ(combine(Vec{1, 10, 100, 1000}, Vec{1, 2, 3, 4}, 2, 2, 1), (Vec{21, 4300}));
}

TEST(Combine, SixteenExpertsInFullPrecision) { // public fault E27: bf16 products or sums would drop the small terms
  Vec y(16, std::ldexp(1.0, -9)), weights(16, 1.0 / 16);
  y[0] = 1;
  EXPECT_EQ(combine(y, weights, 1, 16, 1)[0], (1 + 15 * std::ldexp(1.0, -9)) / 16);
}

namespace {
/// A block with random weights and the storage behind its views.
struct RandomBlock {
  MoeShape shape;
  RouteOptions options;
  std::vector<Vec> storage;
  MoeWeights w;
  Random random{7};

  RandomBlock(MoeShape shape, RouteOptions options, bool norm) : shape(shape), options(options) {
    storage.reserve(3 * options.experts + 10);
    w.router = make(options.experts * shape.hidden);
    w.bias = make(options.experts, 0.1);
    for (Index e = 0; e < options.experts; ++e) {
      w.w1.push_back(make(shape.expertWidth * shape.latent));
      w.w3.push_back(make(shape.expertWidth * shape.latent));
      w.w2.push_back(make(shape.latent * shape.expertWidth));
    }
    if (shape.latent != shape.hidden) {
      w.down = make(shape.latent * shape.hidden);
      w.up = make(shape.hidden * shape.latent);
    }
    if (norm)
      w.norm = make(shape.latent);
    if (shape.sharedWidth) {
      w.sharedGate = make(shape.sharedWidth * shape.hidden);
      w.sharedUp = make(shape.sharedWidth * shape.hidden);
      w.sharedDown = make(shape.hidden * shape.sharedWidth);
    }
  }
  View make(Index size, double scale = 0.5) {
    storage.push_back(random.normal(size, scale));
    return storage.back();
  }
};
} // namespace

/// The block one token and one expert at a time, without plan, sorting or grouping.
static Vec tokenByToken(View x, const RandomBlock &b, Activation activation, double eps) {
  Vec out;
  for (Index t = 0; t < b.shape.tokens; ++t) {
    View xt = x.slice(t * b.shape.hidden, b.shape.hidden);
    Routing r = route(linear(xt, b.w.router, 1, b.shape.hidden, b.options.experts), b.w.bias, 1, b.options);
    Vec z = b.w.down.empty() ? xt.toVec() : linear(xt, b.w.down, 1, b.shape.hidden, b.shape.latent);
    Vec u(b.shape.latent);
    for (Index i = 0; i < b.options.topK; ++i) {
      Index e = r.ids[i];
      Vec y = mlp(z, b.w.w1[e], b.w.w3[e], b.w.w2[e], activation, 1, b.shape.latent, b.shape.expertWidth);
      for (Index j = 0; j < b.shape.latent; ++j)
        u[j] += r.weights[i] * y[j];
    }
    if (!b.w.norm.empty())
      u = rmsNorm(u, b.w.norm, 1, b.shape.latent, eps);
    if (!b.w.up.empty())
      u = linear(u, b.w.up, 1, b.shape.latent, b.shape.hidden);
    if (b.shape.sharedWidth)
      u = add(
          u, mlp(xt, b.w.sharedGate, b.w.sharedUp, b.w.sharedDown, activation, 1, b.shape.hidden, b.shape.sharedWidth));
    out.insert(out.end(), u.begin(), u.end());
  }
  return out;
}

TEST(MoeBlock, EqualsTokenByToken) {
  Activation situ{Activation::Situ, 4, 25};
  struct Case {
    MoeShape shape;
    bool norm;
  } cases[] = {
      {{9, 12, 6, 5, 7}, true}, {{9, 12, 6, 5, 0}, false}, {{9, 12, 12, 5, 7}, false}, {{0, 12, 6, 5, 7}, true}};
  for (const Case &c : cases) {
    RandomBlock block(c.shape, {10, 3, true, 2.446}, c.norm);
    Vec x = block.random.normal(c.shape.tokens * c.shape.hidden);
    Vec y = moeBlock(x, block.w, c.shape, block.options, situ, 1e-5);
    EXPECT_LT(maxDifference(y, tokenByToken(x, block, situ, 1e-5)), 1e-12);
  }
}

TEST(MoeBlock, AllTokensOnOneExpert) {
  RandomBlock block({6, 8, 4, 5, 3}, {7, 1, true, 1}, true);
  Vec bias(7);
  bias[4] = 100;
  block.w.bias = bias;
  Vec x = block.random.normal(6 * 8);
  Routing routing;
  Vec y = moeBlock(x, block.w, block.shape, block.options, {}, 1e-5, &routing);
  EXPECT_EQ(routing.ids, Ints(6, 4));
  EXPECT_LT(maxDifference(y, tokenByToken(x, block, {}, 1e-5)), 1e-12);
}
