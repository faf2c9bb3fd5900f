//===- DotTile.h - register tiles of weight rows times input rows -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Weights [n, k] are read as they are stored, so vectors run along k: a tile of R weight rows x M input rows keeps R *
// M vectors of partial sums in registers. With M inputs every weight vector is widened once for M uses, and with R rows
// every input vector is loaded once for R uses. Where memory is the limit, each of the R rows must belong to a stream
// of its own, long and contiguous: neighbouring rows in turns are read a quarter to a third slower.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_DOTTILE_H
#define K3_CODEGEN_CPU_DOTTILE_H

#include "lib/Codegen/CPU/VectorBuilder.h"

namespace mlir::k3 {

/// One row of a matrix: the memref and all indices but the last.
struct MatrixRow {
  Value matrix;
  SmallVector<Value> at;

  /// All indices of element `last`.
  SmallVector<Value> index(Value last) const;
};

/// Sizes of register tiles that the target has registers for, largest first.
struct DotTileSizes {
  explicit DotTileSizes(const TargetModel &target);
  SmallVector<int64_t> rows, inputs;
};

/// Weights that are f32, or become f32 when they are loaded.
class DotTile {
public:
  /// `depth`: contraction size. `bf16Inputs`: inputs are rounded to bf16 first (weights are bf16 then); where the
  /// target multiplies pairs of bf16 it does so. `fixedOrder`: the order of a sum does not depend on the tile.
  DotTile(const VectorBuilder &v, int64_t depth, bool bf16Inputs = false, bool fixedOrder = false)
      : v(v), depth(depth), bf16Inputs(bf16Inputs), fixedOrder(fixedOrder) {}

  /// Partial sums over [low, high) of the products of input i and row r, at position i * rows + r; add up the lanes to
  /// get the dot product. low is a multiple of the lanes; so is high unless it is the depth. `ahead` > 0: on the way,
  /// asks for the same elements of as many rows further on.
  SmallVector<Value> emit(ArrayRef<MatrixRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high,
                          int64_t ahead = 0) const;

private:
  /// The same in steps of two vectors by bf16 products, as far as whole steps go; returns where it stopped.
  Value emitPairs(ArrayRef<MatrixRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high, int64_t ahead,
                  SmallVector<Value> &sums) const;
  void prefetch(ArrayRef<MatrixRow> rows, Value k, int64_t ahead) const;

  VectorBuilder v;
  int64_t depth;
  bool bf16Inputs, fixedOrder;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_DOTTILE_H
