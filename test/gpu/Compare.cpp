//===- Compare.cpp - results against what was expected ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

using namespace k3::gpu;

Comparison k3::gpu::compare(const std::vector<double> &got, const std::vector<double> &expected,
                            const std::vector<unsigned char> &mask, const Tolerance &tolerance) {
  if (got.size() != expected.size() || (!mask.empty() && mask.size() != expected.size()))
    throw std::runtime_error("results of another number than expected");
  const double infinity = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if ((mask.empty() || mask[i]) && std::isfinite(expected[i]))
      largest = std::max(largest, std::abs(expected[i]));
  Comparison out;
  double largestDifference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!mask.empty() && !mask[i])
      continue;
    double worst, difference = 0;
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) {
      worst = 0;
    } else if (!std::isfinite(got[i]) || !std::isfinite(expected[i])) {
      worst = difference = infinity;
    } else {
      difference = std::abs(got[i] - expected[i]);
      double allowed = tolerance.ofLargest * largest + tolerance.ofOwn * std::abs(expected[i]) + tolerance.absolute;
      worst = allowed > 0 ? difference / allowed : infinity;
    }
    largestDifference = std::max(largestDifference, difference);
    if (worst > out.worst)
      out = {worst, i, got[i], expected[i], 0};
  }
  out.relativeError = largestDifference == 0 ? 0 : largestDifference / (largest > 0 ? largest : 1);
  return out;
}
