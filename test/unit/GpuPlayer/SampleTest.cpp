//===- SampleTest.cpp - what stands for large results ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Sample.h"
#include "test/gpu/Compare.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace k3::gpu;

namespace {

TEST(Sample, HasBothEndsAndSomethingOfEveryBlock) {
  for (std::uint64_t elements : {1, 31, 40, 1025, 5000, 131073, 1000003}) {
    Sample sample(elements);
    std::vector<std::uint64_t> positions = sample.positions(std::vector<double>(sample.blocks()));
    std::set<std::uint64_t> all(positions.begin(), positions.end()), blocks;
    ASSERT_EQ(all.size(), positions.size());
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    EXPECT_LT(positions.back(), elements);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(32, elements); ++i)
      EXPECT_TRUE(all.count(i) && all.count(elements - 1 - i)) << i << " of " << elements;
    for (std::uint64_t position : positions)
      blocks.insert(position / sample.blockSize());
    EXPECT_EQ(blocks.size(), sample.blocks());
    EXPECT_LE(sample.blocks(), 8192u);
  }
}

TEST(Sample, LiesInEveryColumn) {
  std::set<std::uint64_t> columns;
  Sample sample(128 * 300);
  for (std::uint64_t position : sample.positions(std::vector<double>(sample.blocks())))
    columns.insert(position % 128);
  EXPECT_EQ(columns.size(), 128u);
}

TEST(Sample, KeepsBlocksWithUndefinedElementsWhole) {
  Sample sample(5000);
  std::vector<double> sums(sample.blocks());
  std::size_t before = sample.positions(sums).size();
  sums[100] = NAN;
  sums.back() = INFINITY; // 8 elements, all among the last 32
  std::vector<std::uint64_t> positions = sample.positions(sums);
  EXPECT_EQ(positions.size(), before + 15);
  for (std::uint64_t i = 1600; i < 1616; ++i)
    EXPECT_TRUE(std::binary_search(positions.begin(), positions.end(), i));
}

const Tolerance tolerance{1e-5, 0, 0};

std::vector<double> waves(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
  return values;
}

TEST(CompareSums, FindAnyElementThatIsWrong) {
  std::vector<double> expected = waves(1003), sums = sumBlocks(expected, 16);
  ASSERT_EQ(sums.size(), 63u);
  EXPECT_TRUE(compareSums(expected, sums, 16, {}, 1).pass());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<double> got = expected;
    got[i] += 33e-5;
    Comparison comparison = compareSums(got, sums, 16, tolerance, 1);
    EXPECT_FALSE(comparison.pass()) << i;
    EXPECT_EQ(comparison.at, i / 16);
    EXPECT_FALSE(compareSums(got, sums, 16, {}, 1).pass()) << i;
    got[i] = NAN;
    EXPECT_FALSE(compareSums(got, sums, 16, {1e9, 1e9, 1e9}, 1).pass()) << i;
    got[i] = INFINITY;
    EXPECT_FALSE(compareSums(got, sums, 16, {1e9, 0, 1e9}, 1).pass()) << i;
  }
}

TEST(CompareSums, AllowWhatIsAllowedToEveryElement) {
  std::vector<double> expected = waves(1003), sums = sumBlocks(expected, 16), got = expected;
  for (double &x : got)
    x = static_cast<float>(x + 0.99e-5);
  EXPECT_TRUE(compareSums(got, sums, 16, tolerance, 1).pass());
  EXPECT_TRUE(compareSums(got, sums, 16, {0, 0, 1e-5}, 1).pass());
  EXPECT_FALSE(compareSums(got, sums, 16, tolerance, 0.5).pass());
  for (std::size_t i = 0; i < got.size(); ++i)
    got[i] = static_cast<float>(expected[i] * 1.0009);
  EXPECT_TRUE(compareSums(got, sums, 16, {0, 1e-3, 0}, 1).pass());
  EXPECT_FALSE(compareSums(got, sums, 16, {0, 1e-4, 0}, 1).pass());
}

TEST(CompareSums, SayNothingOfUndefinedBlocks) {
  std::vector<double> expected = waves(48), got = expected;
  expected[20] = NAN;
  got[17] = 100;
  EXPECT_TRUE(compareSums(got, sumBlocks(expected, 16), 16, tolerance, 1).pass());
  got[15] = 100;
  EXPECT_FALSE(compareSums(got, sumBlocks(expected, 16), 16, tolerance, 1).pass());
}

TEST(CompareSums, RefuseOtherSizes) {
  EXPECT_THROW(compareSums(waves(33), {1, 2}, 16, {}, 1), std::runtime_error);
}

} // namespace
