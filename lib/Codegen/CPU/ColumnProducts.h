//===- ColumnProducts.h - input rows times whole stored matrices -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_COLUMNPRODUCTS_H
#define K3_CODEGEN_CPU_COLUMNPRODUCTS_H

#include "lib/Codegen/CPU/DotTile.h"
#include <memory>

namespace mlir::k3 {

/// A weight as it is stored: f32 or bf16 [n, k], or bytes of MXFP4 codes [n, k / 2] with their E8M0 scales [n, k / 32].
struct WeightMatrix {
  Value weight, scale;
  /// What is read after it, of the same shape; none if that is not known.
  Value nextWeight = {}, nextScale = {};
};

/// Emits all columns of the products of a few input rows with one or more matrices.
class ColumnProducts {
public:
  /// For each block of columns, `finish(token, column, mask, sums)` stores what it makes of the vectors of sums, one
  /// per matrix.
  using Finish = function_ref<void(int64_t token, Value column, Value mask, ArrayRef<Value> sums)>;

  /// For `matrices` weights of `element` type with `depth` = k elements in a row. `bf16Inputs`, `fixedOrder`: see
  /// DotTile.
  static std::unique_ptr<ColumnProducts> create(const VectorBuilder &v, Type element, int64_t depth, int64_t matrices,
                                                bool bf16Inputs, bool fixedOrder);
  virtual ~ColumnProducts() = default;

  /// How many input rows there may be at a time, largest first; the last is 1.
  virtual ArrayRef<int64_t> getTokenBlocks() const = 0;
  /// Whether `emit` asks for the first weights of what is read after a matrix.
  virtual bool asksForNext() const { return false; }
  /// Chooses the input rows of the next calls.
  virtual void setInputs(ArrayRef<MatrixRow> rows) = 0;
  /// `columns`: rows of each of the matrices.
  virtual void emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) = 0;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_COLUMNPRODUCTS_H
