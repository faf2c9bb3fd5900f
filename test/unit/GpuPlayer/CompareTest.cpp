//===- CompareTest.cpp - results against what was expected -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Compare.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace k3::gpu;

namespace {

const double nan = NAN, infinity = INFINITY;

TEST(Compare, AddsUpWhatIsAllowed) {
  Tolerance tolerance{0.01, 0.1, 0.5}; // of 100, of the element, and a constant
  EXPECT_TRUE(compare({100, 12.4}, {100, 10}, {}, tolerance).pass());
  Comparison bad = compare({100, 12.6}, {100, 10}, {}, tolerance);
  EXPECT_FALSE(bad.pass());
  EXPECT_EQ(bad.at, 1u);
  EXPECT_NEAR(bad.worst, 2.6 / 2.5, 1e-12);
  EXPECT_NEAR(bad.relativeError, 0.026, 1e-12);
}

TEST(Compare, IsExactWithoutTolerance) {
  EXPECT_TRUE(compare({1, -0.0, infinity}, {1, 0.0, infinity}, {}, {}).pass());
  EXPECT_FALSE(compare({1 + 1e-15}, {1}, {}, {}).pass());
  EXPECT_FALSE(compare({1e-30}, {0}, {}, {1, 1, 0}).pass());
}

TEST(Compare, TakesNothingElseForWhatIsNotANumber) {
  Tolerance wide{1e9, 1e9, 1e9};
  EXPECT_TRUE(compare({nan}, {nan}, {}, {}).pass());
  EXPECT_FALSE(compare({nan}, {1}, {}, wide).pass());
  EXPECT_FALSE(compare({1}, {nan}, {}, wide).pass());
  EXPECT_FALSE(compare({infinity}, {1}, {}, wide).pass());
  EXPECT_FALSE(compare({-infinity}, {infinity}, {}, wide).pass());
}

TEST(Compare, LeavesMaskedElementsOut) {
  EXPECT_TRUE(compare({1, nan}, {1, 1e30}, {1, 0}, {}).pass());
  // A masked element does not make others' tolerance wider.
  EXPECT_FALSE(compare({2, 0}, {1, 1e30}, {1, 0}, {0.1, 0, 0}).pass());
}

TEST(Compare, KnowsOfLargerElementsElsewhere) {
  EXPECT_FALSE(compare({1.5}, {1}, {}, {0.1, 0, 0}).pass());
  EXPECT_TRUE(compare({1.5}, {1}, {}, {0.1, 0, 0}, 10).pass());
  EXPECT_TRUE(compare({101}, {100}, {}, {0.1, 0, 0}, 10).pass());
}

TEST(Compare, RefusesOtherSizes) {
  EXPECT_THROW(compare({1}, {1, 2}, {}, {}), std::runtime_error);
  EXPECT_THROW(compare({1, 2}, {1, 2}, {1}, {}), std::runtime_error);
}

} // namespace
