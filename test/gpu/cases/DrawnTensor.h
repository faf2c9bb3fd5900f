//===- DrawnTensor.h - tensors too large to hold ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/unit/Codegen/CaseExport.h"

namespace k3::test {

/// A tensor that is made on the device, and whose elements are known here.
class DrawnTensor {
public:
  /// Some million values, repeated: a prime number, so that hardly any two rows are equal, and the tensor's elements
  /// 2^31 or 2^32 apart are different ones.
  static constexpr Index period = 1048573;

  static DrawnTensor normal(std::string dtype, Shape shape, double scale = 1);
  static DrawnTensor uniform(std::string dtype, Shape shape, double low, double high);
  static DrawnTensor bytes(Shape shape, int low, int high);

  const Array &array() const { return tensor; }
  const Shape &shape() const { return tensor.shape(); }
  /// The element as kernels read it.
  double at(Index flat) const { return values[static_cast<std::size_t>(flat % period)]; }
  /// `count` elements from `first` on.
  Vec slice(Index first, Index count) const;
  /// Rows `indices` of a matrix whose rows have `width` elements.
  Vec rows(const std::vector<Index> &indices, Index width) const;

private:
  DrawnTensor(std::string dtype, Shape shape, gpu::Draw draw);
  Array tensor;
  Vec values;
};

/// Checks that the latest run left `expected` at `positions` of `array`.
void expectAt(const Array &array, const std::vector<Index> &positions, const Vec &expected, Tolerance tolerance);
inline void expectAt(const Array &array, const std::vector<Index> &positions, const Vec &expected, double ofLargest) {
  expectAt(array, positions, expected, Tolerance{ofLargest, 0, 0});
}
/// The latest run is to be timed.
void measure(double trafficBytes, double operations = 0);

} // namespace k3::test
