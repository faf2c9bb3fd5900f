//===- DotTile.h - register tiles of weight rows times input rows -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Weights [n, k] are read as they are stored, so vectors run along k: a tile of R weight rows x M input rows keeps R * M
// vectors of partial sums in registers. R rows are R contiguous streams, which is what decoding needs to reach the
// memory's bandwidth; with M inputs every weight vector is widened or decoded once for M uses.
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
};

/// A weight row; packed weights (MXFP4) also have their decoded group scales, f32 [.., k / 32].
struct WeightRow {
  MatrixRow codes, scales;
};

/// Sizes of register tiles that the target has registers for, largest first.
struct DotTileSizes {
  explicit DotTileSizes(const TargetModel &target, bool packed);
  SmallVector<int64_t> rows, inputs;
};

class DotTile {
public:
  static constexpr int64_t groupSize = 32;

  /// `depth`: contraction size, the logical one for packed weights.
  DotTile(const VectorBuilder &v, bool packed, int64_t depth) : v(v), packed(packed), depth(depth) {}

  /// Partial sums over [low, high) of the products of input i and row r, at position i * rows + r; add up the lanes to
  /// get the dot product. low is a multiple of the group size and of the lanes; so is high unless it is the depth.
  SmallVector<Value> emit(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high) const;
  SmallVector<Value> emit(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs) const {
    return emit(rows, inputs, v.index(0), v.index(depth));
  }

  /// Decodes the E8M0 scales of row `from` (i8 [.., k / 32]) into row `to` (f32).
  void decodeScales(MatrixRow from, MatrixRow to) const;

private:
  SmallVector<Value> emitFloat(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high) const;
  SmallVector<Value> emitPacked(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high) const;

  const VectorBuilder &v;
  bool packed;
  int64_t depth;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_DOTTILE_H
