//===- MlaTest.cpp - Latent attention: cache, absorbed and expanded forms -===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Mla.h"
#include "lib/Reference/Common.h"
#include "TestSupport.h"

using namespace k3::ref;
using namespace k3::ref::test;

using Ints = std::vector<std::int32_t>;

TEST(MlaAppend, NormalisesTheLatentAndKeepsTheRest) {
  MlaShape shape{3, 1, 2, 1, 3};
  Vec cache(2 * 3 * 3, -1);
  mlaAppend(Vec{3, 4, 7, 0, 2, 8, 6, 8, 9}, Vec{1, 2}, 0, Ints{0, 1, 3}, Ints{2, 0}, cache, shape);
  double r = std::sqrt(12.5);
  Vec expected{-1, -1, -1, -1, -1, -1, 3 / r, 8 / r, 7, 0, 4 / std::sqrt(2.0), 8, 3 / r, 8 / r, 9, -1, -1, -1};
  EXPECT_LT(maxDifference(cache, expected), 1e-14);
  EXPECT_DEATH(mlaAppend(Vec{3, 4, 7, 0, 2, 8, 6, 8, 9}, Vec{1, 2}, 0, Ints{0, 1, 3}, Ints{3, 0}, cache, shape),
               "cache is full");
}

TEST(MlaAttend, HandComputedSoftmax) { // one head, latent 1, rope 1, rows (1,0) and (3,1), query (2,ln2), scale 1/2
  Vec o = mlaAttend(Vec{2}, Vec{2 * std::log(2.0)}, Vec{1, 0, 3, 1}, Ints{0, 1}, Ints{2}, 0.5, {1, 1, 1, 1, 2});
  double first = std::exp(1.0), second = std::exp(3.0) * 2;
  EXPECT_NEAR(o[0], (first + 3 * second) / (first + second), 1e-14);
}

TEST(MlaAttend, NoKeyGivesZeros) {
  MlaShape shape{2, 1, 2, 1, 4};
  Vec cache(4 * 3, NAN);
  EXPECT_EQ(mlaAttend(Vec{1, 2, 3, 4}, Vec{1, 2}, cache, Ints{0, 2}, Ints{0}, 1, shape), Vec(4));
}

TEST(MlaAttend, RowsPastTheContextAreNotRead) {
  MlaShape shape{2, 1, 1, 1, 4};
  Vec cache{1, 0, 3, 0, NAN, NAN, NAN, NAN};
  Vec o = mlaAttend(Vec{0, 0}, Vec{0, 0}, cache, Ints{0, 2}, Ints{2}, 1, shape);
  EXPECT_LT(maxDifference(o, Vec{1, 2}), 1e-14); // the first token sees one row, the second both
}

namespace {
struct MlaCase {
  MlaShape shape{0, 3, 6, 2, 12};
  Index nope = 5, value = 4;
  Ints cu{0, 4, 4, 5, 11}, context{9, 3, 1, 6};
  Vec qNope, qRope, cache, wKvB;

  MlaCase() {
    Random random(5);
    shape.tokens = cu.back();
    qNope = random.normal(shape.tokens * shape.heads * nope);
    qRope = random.normal(shape.tokens * shape.heads * shape.rope);
    cache = random.normal(4 * shape.capacity * (shape.latent + shape.rope));
    wKvB = random.normal(shape.heads * (nope + value) * shape.latent);
  }
};
} // namespace

TEST(MlaAttend, AbsorbedEqualsExpanded) {
  MlaCase c;
  double scale = 1 / std::sqrt(double(c.nope + c.shape.rope));
  Vec expanded = mlaAttendExpanded(c.qNope, c.qRope, c.wKvB, c.cache, c.cu, c.context, scale, c.nope, c.value, c.shape);
  Vec latent = mlaAttend(mlaAbsorbQuery(c.qNope, c.wKvB, c.nope, c.value, c.shape), c.qRope, c.cache, c.cu, c.context,
                         scale, c.shape);
  EXPECT_LT(maxDifference(mlaExpandValue(latent, c.wKvB, c.nope, c.value, c.shape), expanded), 1e-12);
}

TEST(MlaAttend, OneTokenAtATimeEqualsAllAtOnce) {
  MlaCase c;
  Vec qAbs = mlaAbsorbQuery(c.qNope, c.wKvB, c.nope, c.value, c.shape);
  Vec all = mlaAttend(qAbs, c.qRope, c.cache, c.cu, c.context, 0.3, c.shape);
  Index perCache = c.shape.capacity * (c.shape.latent + c.shape.rope), H = c.shape.heads;
  for (Index n = 0; n < 4; ++n)
    for (Index t = c.cu[n]; t < c.cu[n + 1]; ++t) {
      MlaShape one = c.shape;
      one.tokens = 1;
      int seen = int(c.context[n] - (c.cu[n + 1] - t) + 1);
      Vec o = mlaAttend(slice(qAbs, t * H * one.latent, (t + 1) * H * one.latent),
                        slice(c.qRope, t * H * one.rope, (t + 1) * H * one.rope),
                        slice(c.cache, n * perCache, (n + 1) * perCache), Ints{0, 1}, Ints{seen}, 0.3, one);
      EXPECT_EQ(o, slice(all, t * H * one.latent, (t + 1) * H * one.latent));
    }
}
