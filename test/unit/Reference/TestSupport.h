//===- TestSupport.h - Random data and comparisons for the reference tests ===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace k3::ref::test {

/// Repeatable random arrays.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  Vec normal(Index size, double scale = 1) {
    std::normal_distribution<double> d(0, scale);
    return fill(size, d);
  }
  Vec uniform(Index size, double low, double high) {
    std::uniform_real_distribution<double> d(low, high);
    return fill(size, d);
  }

private:
  template <typename Distribution> Vec fill(Index size, Distribution &d) {
    Vec out(size);
    for (double &x : out)
      x = d(engine);
    return out;
  }
  std::mt19937_64 engine;
};

inline double maxAbs(View a) {
  double m = 0;
  for (Index i = 0; i < a.size(); ++i)
    m = std::max(m, std::abs(a[i]));
  return m;
}

/// Largest absolute difference; infinite if sizes differ or any difference is not finite.
inline double maxDifference(View a, View b) {
  if (a.size() != b.size())
    return INFINITY;
  double m = 0;
  for (Index i = 0; i < a.size(); ++i) {
    double d = std::abs(a[i] - b[i]);
    if (!std::isfinite(d))
      return INFINITY;
    m = std::max(m, d);
  }
  return m;
}

/// maxDifference relative to the largest magnitude of `expected`.
inline double relativeDifference(View actual, View expected) {
  double scale = maxAbs(expected);
  return maxDifference(actual, expected) / (scale > 0 ? scale : 1);
}

inline Vec slice(const Vec &v, Index begin, Index end) { return Vec(v.begin() + begin, v.begin() + end); }

} // namespace k3::ref::test
