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
                            const std::vector<unsigned char> &mask, const Tolerance &tolerance, double largest) {
  if (got.size() != expected.size() || (!mask.empty() && mask.size() != expected.size()))
    throw std::runtime_error("results of another number than expected");
  const double infinity = std::numeric_limits<double>::infinity();
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

std::vector<double> k3::gpu::sumBlocks(const std::vector<double> &values, std::uint64_t size) {
  std::vector<double> sums((values.size() + size - 1) / size);
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i / size] += values[i];
  for (double &sum : sums)
    sum = static_cast<float>(sum);
  return sums;
}

Comparison k3::gpu::compareSums(const std::vector<double> &got, const std::vector<double> &sums, std::uint64_t size,
                                const Tolerance &tolerance, double largest) {
  std::vector<double> all = sumBlocks(got, size);
  if (all.size() != sums.size())
    throw std::runtime_error("results of another number than expected");
  const bool exact = tolerance.ofLargest == 0 && tolerance.ofOwn == 0 && tolerance.absolute == 0;
  Comparison out;
  double largestDifference = 0;
  for (std::size_t block = 0; block < sums.size(); ++block) {
    if (!std::isfinite(sums[block]))
      continue;
    std::size_t first = block * size, last = std::min<std::size_t>(first + size, got.size());
    // Elements that are equal have equal sums, so only what was rounded otherwise needs room for f32's rounding.
    double allowed = exact ? 0 : std::abs(sums[block]) * std::numeric_limits<float>::epsilon();
    for (std::size_t i = first; i < last; ++i)
      allowed += tolerance.ofLargest * largest + tolerance.ofOwn * std::abs(got[i]) + tolerance.absolute;
    double difference = std::abs(all[block] - sums[block]), worst = 0;
    if (!std::isfinite(difference))
      worst = difference = std::numeric_limits<double>::infinity();
    else if (difference > 0)
      worst = allowed > 0 ? difference / allowed : std::numeric_limits<double>::infinity();
    largestDifference = std::max(largestDifference, difference);
    if (worst > out.worst)
      out = {worst, block, all[block], sums[block], 0};
  }
  out.relativeError = largestDifference == 0 ? 0 : largestDifference / (largest > 0 ? largest : 1);
  return out;
}
