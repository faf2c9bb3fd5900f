//===- Compare.h - results against what was expected -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/CaseFile.h"

namespace k3::gpu {

struct Comparison {
  /// Largest difference by what the tolerance allows for that element: up to 1 passes. Infinite where one of the two is
  /// not a number, or where nothing but equality was allowed.
  double worst = 0;
  std::size_t at = 0; ///< of the worst element
  double got = 0, expected = 0;
  /// Largest difference by the largest magnitude that was expected.
  double relativeError = 0;
  bool pass() const { return worst <= 1; }
};

/// `mask` is empty or has a value for each element, 0 where any result will do. Sizes must agree. `largest`: magnitude
/// that is expected elsewhere.
Comparison compare(const std::vector<double> &got, const std::vector<double> &expected,
                   const std::vector<unsigned char> &mask, const Tolerance &tolerance, double largest = 0);

/// Of `values`, block by block of `size`, the last one as long as it is; each rounded to f32.
std::vector<double> sumBlocks(const std::vector<double> &values, std::uint64_t size);

/// Sums of the blocks of `got`, all elements of a result: each may be off by what is allowed to its elements together.
/// Those that are expected not to be finite say nothing. `at` is a block.
Comparison compareSums(const std::vector<double> &got, const std::vector<double> &sums, std::uint64_t size,
                       const Tolerance &tolerance, double largest);

} // namespace k3::gpu
