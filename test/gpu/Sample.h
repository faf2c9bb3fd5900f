//===- Sample.h - what stands for all elements of a large result -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include <cstdint>
#include <vector>

namespace k3::gpu {

/// Case files would be mostly results if these were kept whole. Of a large one they keep some elements, by which errors as
/// small as the tolerance are found, and sums of blocks of neighbours, which every element is in: one that is wrong by more
/// than twice what is allowed to its block is found wherever it is. A block with an element that is expected to be
/// undefined has no finite sum; all of its elements are kept.
class Sample {
public:
  /// Results of no more elements are kept whole.
  static constexpr std::uint64_t whole = 1024;

  explicit Sample(std::uint64_t elements);
  /// Rising: the first and the last 32 elements, and one of each block, by a hash. `sums`: of the blocks.
  std::vector<std::uint64_t> positions(const std::vector<double> &sums) const;
  std::uint64_t blocks() const { return (elements + size - 1) / size; }
  /// Elements of a block; the last one may have fewer.
  std::uint64_t blockSize() const { return size; }

private:
  std::uint64_t elements, size;
};

} // namespace k3::gpu
