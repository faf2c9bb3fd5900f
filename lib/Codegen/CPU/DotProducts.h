//===- DotProducts.h - input rows times rows of stored weights -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_DOTPRODUCTS_H
#define K3_CODEGEN_CPU_DOTPRODUCTS_H

#include "lib/Codegen/CPU/DotTile.h"
#include <memory>

namespace mlir::k3 {

/// A row of a WeightMatrix.
struct WeightRow {
  MatrixRow weight, scale;
};

/// Emits dot products of input rows with rows of stored weights.
class DotProducts {
public:
  /// For weights of `element` type with `depth` = k elements in a row. `bf16Inputs`, `fixedOrder`: see DotTile.
  static std::unique_ptr<DotProducts> create(const VectorBuilder &v, Type element, int64_t depth, bool bf16Inputs,
                                             bool fixedOrder);
  virtual ~DotProducts() = default;

  /// How many input rows one call may take, largest first; the last is 1.
  virtual ArrayRef<int64_t> getTokenBlocks() const = 0;
  /// How many weight rows, of all matrices together, one call should take with `tokens` input rows.
  virtual int64_t getWeightRows(int64_t tokens) const = 0;
  /// Chooses the input rows of the next calls.
  virtual void setInputs(ArrayRef<MatrixRow> rows) = 0;
  /// The sums of every input row with every one of `weights`, input row by input row: vectors whose lanes add up to
  /// them. The next call takes the weight rows `stride` rows further.
  virtual SmallVector<Value> emit(ArrayRef<WeightRow> weights, int64_t stride) = 0;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_DOTPRODUCTS_H
