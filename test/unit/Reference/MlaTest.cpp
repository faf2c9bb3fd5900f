//===- MlaTest.cpp - Latent attention: cache, absorbed and expanded forms -===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Mla.h"
#include "TestSupport.h"
#include "lib/Reference/Common.h"

using namespace k3::ref;
using namespace k3::ref::test;

using Ints = std::vector<std::int32_t>;

TEST(MlaAppend, NormalisesTheLatentAndKeepsTheRest) { // pages of two rows; sequences hold 2 and 0 tokens
  MlaShape shape{3, 1, 2, 1, 1, 1, 2};
  Ints cu{0, 1, 3}, lengths{2, 0}, pages{3, 0, 2, 1};
  Vec cache(4 * 2 * 3, -1), kv{3, 4, 7, 0, 2, 8, 6, 8, 9};
  mlaAppend(kv, Vec{1, 2}, 0, {cu, lengths, pages}, cache, shape);
  double r = std::sqrt(12.5);
  Vec expected(4 * 2 * 3, -1), a{3 / r, 8 / r, 7}, b{0, 4 / std::sqrt(2.0), 8}, c{3 / r, 8 / r, 9};
  std::copy(a.begin(), a.end(), expected.begin());      // position 2 of the first: page 0, row 0
  std::copy(b.begin(), b.end(), expected.begin() + 12); // positions 0 and 1 of the second: page 2
  std::copy(c.begin(), c.end(), expected.begin() + 15);
  EXPECT_LT(maxDifference(cache, expected), 1e-14);
  Ints full{4, 0};
  EXPECT_DEATH(mlaAppend(kv, Vec{1, 2}, 0, {cu, full, pages}, cache, shape), "outside the page table");
}

TEST(MlaAttend, HandComputedSoftmax) { // one head, latent 1, rope 1, rows (1,0) and (3,1), query (2,2 ln2), scale 1/2
  Ints cu{0, 1}, lengths{1}, pages{0};
  Vec o = mlaAttend(Vec{2, 2 * std::log(2.0)}, Vec{1, 0, 3, 1}, 0.5, {cu, lengths, pages}, {1, 1, 1, 1, 1, 1, 2});
  double first = std::exp(1.0), second = std::exp(3.0) * 2;
  EXPECT_NEAR(o[0], (first + 3 * second) / (first + second), 1e-14);
}

TEST(MlaAttend, LaterRowsAreNotRead) {
  Ints cu{0, 2}, lengths{0}, pages{0};
  Vec cache{1, 0, 3, 0, NAN, NAN, NAN, NAN};
  Vec o = mlaAttend(Vec{0, 0, 0, 0}, cache, 1, {cu, lengths, pages}, {2, 1, 1, 1, 1, 1, 4});
  EXPECT_LT(maxDifference(o, Vec{1, 2}), 1e-14); // the first token sees one row, the second both
}

TEST(MlaAttend, NoTokens) {
  Ints cu{0, 0, 0}, lengths{3, 0}, pages{0, 1};
  EXPECT_TRUE(mlaAttend({}, Vec(2 * 4 * 2), 1, {cu, lengths, pages}, {0, 3, 1, 1, 1, 1, 4}).empty());
}

TEST(MlaAttendPartial, DealsTilesToRuns) {
  // Contexts of 5, 1 and 7 rows are 3, 1 and 4 tiles of two rows; three runs get 3, 3 and 2 of them: the first sequence
  // is run 0, the second one is in run 1 with the first half of the third, whose end is run 2. The query is 0: means.
  Ints lengths{4, 0, 6}, pages{0, 1, 2};
  MlaShape shape{3, 1, 1, 0, 0, 0, 8};
  Vec cache(3 * 8, NAN);
  for (Index p = 0; p < 5; ++p)
    cache[p] = p;
  cache[8] = 10;
  for (Index p = 0; p < 7; ++p)
    cache[16 + p] = 20 + p;
  AttendParts parts = mlaAttendPartial(Vec(3), cache, 1, lengths, pages, 2, 3, shape);
  EXPECT_NEAR(parts.out[0], 2, 1e-14);
  EXPECT_NEAR(parts.out[1], 10, 1e-14);
  EXPECT_TRUE(std::isnan(parts.out[2]));
  for (Index place : {0, 1, 2, 5}) // [R, 2]
    EXPECT_TRUE(std::isnan(parts.parts[place]) && std::isnan(parts.states[2 * place + 1])) << place;
  EXPECT_NEAR(parts.parts[3], 20 + 21 + 22 + 23, 1e-13); // begins in run 1
  EXPECT_EQ(parts.states[6], 0);
  EXPECT_NEAR(parts.states[7], 4, 1e-14);
  EXPECT_NEAR(parts.parts[4], 24 + 25 + 26, 1e-13); // and goes on in run 2
  EXPECT_NEAR(parts.states[9], 3, 1e-14);
  mlaAttendMerge(parts.parts, parts.states, lengths, 2, 3, parts.out, shape);
  EXPECT_LT(maxDifference(parts.out, Vec{2, 10, 23}), 1e-13);
}

namespace {
/// Four sequences on shuffled pages of three rows.
struct MlaCase {
  MlaShape shape{0, 3, 6, 2, 5, 4, 3};
  Ints cu{0, 4, 4, 5, 11}, lengths{5, 3, 0, 0};
  Ints pages{7, 2, 9, 0, 4, 4, 1, 8, 8, 5, 3, 6}; // [4,3]; the second and third sequence use one page
  Vec q, cache, kvB;
  double scale = 0.37;

  MlaCase() {
    Random random(5);
    shape.tokens = cu.back();
    q = random.normal(shape.tokens * shape.heads * (shape.nope + shape.rope));
    cache = random.normal(10 * shape.page * (shape.latent + shape.rope));
    kvB = random.normal(shape.heads * (shape.nope + shape.value) * shape.latent);
  }
  MlaBatch batch() const { return {cu, lengths, pages}; }
};
} // namespace

TEST(MlaAttend, AbsorbedEqualsExpanded) {
  MlaCase c;
  Vec expanded = mlaAttendExpanded(c.q, c.kvB, c.cache, c.scale, c.batch(), c.shape);
  Vec latent = mlaAttend(mlaAbsorb(c.q, c.kvB, c.shape), c.cache, c.scale, c.batch(), c.shape);
  EXPECT_LT(maxDifference(mlaExpand(latent, c.kvB, c.shape), expanded), 1e-12);
}

TEST(MlaAttendPartial, PartsMakeTheWhole) {
  MlaCase c;
  c.lengths = {8, 3, 0, 5};
  c.cu = {0, 1, 2, 3, 4};
  c.shape.tokens = 4;
  Vec all = mlaAbsorb(c.q, c.kvB, {11, 3, 6, 2, 5, 4, 3}), q(all.begin(), all.begin() + 4 * 3 * 8);
  Vec whole = mlaAttend(q, c.cache, c.scale, c.batch(), c.shape);
  for (Index tile : {1, 2, 4, 100})
    for (Index runs : {1, 2, 3, 7, 30}) {
      AttendParts parts = mlaAttendPartial(q, c.cache, c.scale, c.lengths, c.pages, tile, runs, c.shape);
      mlaAttendMerge(parts.parts, parts.states, c.lengths, tile, runs, parts.out, c.shape);
      EXPECT_LT(maxDifference(parts.out, whole), 1e-12) << "tiles of " << tile << ", " << runs << " runs";
    }
}

TEST(MlaAttend, OneTokenAtATimeEqualsAllAtOnce) {
  MlaCase c;
  Vec q = mlaAbsorb(c.q, c.kvB, c.shape), all = mlaAttend(q, c.cache, c.scale, c.batch(), c.shape);
  Index H = c.shape.heads, l = c.shape.latent, width = l + c.shape.rope;
  for (Index n = 0; n < 4; ++n)
    for (Index t = c.cu[n]; t < c.cu[n + 1]; ++t) {
      MlaShape one = c.shape;
      one.tokens = 1;
      Ints cu{0, 1}, lengths{c.lengths[n] + int(t) - c.cu[n]}, pages(&c.pages[n * 3], &c.pages[n * 3] + 3);
      Vec o = mlaAttend(slice(q, t * H * width, (t + 1) * H * width), c.cache, c.scale, {cu, lengths, pages}, one);
      EXPECT_EQ(o, slice(all, t * H * l, (t + 1) * H * l));
    }
}

TEST(MlaAttend, PagesOnlySayWhereRowsLie) {
  MlaCase c;
  Index width = c.shape.latent + c.shape.rope;
  Vec q = mlaAbsorb(c.q, c.kvB, c.shape), contiguous; // the same rows, sequence by sequence, one page of nine rows each
  for (Index n = 0; n < 4; ++n)
    for (Index p = 0; p < 9; ++p) {
      Index row = c.pages[n * 3 + p / 3] * 3 + p % 3;
      contiguous.insert(contiguous.end(), c.cache.begin() + row * width, c.cache.begin() + (row + 1) * width);
    }
  MlaShape shape = c.shape;
  shape.page = 9;
  Ints pages{0, 1, 2, 3};
  EXPECT_EQ(mlaAttend(q, contiguous, c.scale, {c.cu, c.lengths, pages}, shape),
            mlaAttend(q, c.cache, c.scale, c.batch(), c.shape));
}
