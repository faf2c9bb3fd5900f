//===- Sample.cpp - what stands for all elements of a large result ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Sample.h"

#include <algorithm>
#include <cmath>

using namespace k3::gpu;

/// Blocks as small as that, as long as they are no more than so many.
static constexpr std::uint64_t smallestBlock = 16, mostBlocks = 8192;

/// The finalizer of SplitMix64.
static std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Sample::Sample(std::uint64_t elements)
    : elements(elements), size(std::max(smallestBlock, (elements + mostBlocks - 1) / mostBlocks)) {}

std::vector<std::uint64_t> Sample::positions(const std::vector<double> &sums) const {
  constexpr std::uint64_t end = 32;
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 0; i < std::min(end, elements); ++i) {
    out.push_back(i);
    out.push_back(elements - 1 - i);
  }
  for (std::uint64_t block = 0; block < blocks(); ++block) {
    std::uint64_t first = block * size, count = std::min(size, elements - first);
    if (std::isfinite(sums[block]))
      out.push_back(first + mix(block) % count);
    else
      for (std::uint64_t i = 0; i < count; ++i)
        out.push_back(first + i);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}
