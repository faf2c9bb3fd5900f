//===- MxFp4Columns.h - products with MXFP4 weights, features as lanes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The lanes of a vector belong to as many rows of the weight: 16 bytes of each, a group, are loaded, and squares of
// four lanes transposed. The elements of an input row are spread over the lanes by the load itself. So weights are
// decoded once for all input rows, a scale counts once per group and input row, and no lanes are added up.
//
// This is for short rows, of which a line (MxFp4.h) leaves much over, and whose sums over lanes cost as much as the
// rest. Long ones need fewer instructions as lines, and are streams that the hardware follows.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_MXFP4COLUMNS_H
#define K3_CODEGEN_CPU_MXFP4COLUMNS_H

#include "lib/Codegen/CPU/ColumnProducts.h"
#include "lib/Codegen/CPU/MxFp4.h"

namespace mlir::k3 {

class MxFp4Columns : public ColumnProducts {
public:
  /// Whether this is faster than dot products.
  static bool isBest(int64_t depth);

  /// `depth` is a multiple of 32. `bf16Inputs`: inputs are rounded to bf16, and multiplied as pairs where the target
  /// can. `fixedOrder`: see DotTile.
  MxFp4Columns(const VectorBuilder &v, int64_t depth, bool bf16Inputs, bool fixedOrder);

  ArrayRef<int64_t> getTokenBlocks() const override { return tokenBlocks; }
  void setInputs(ArrayRef<MatrixRow> rows) override;
  void emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) override;

private:
  /// The sums of every input row with as many rows of the weight as there are lanes, from `column` on; none behind
  /// `last`, where that is given.
  SmallVector<Value> emitBlock(const WeightMatrix &matrix, Value column, Value last) const;
  /// The same of one group, without scales; `weights`: those rows.
  SmallVector<Value> emitGroup(ArrayRef<MatrixRow> weights, Value group) const;
  /// Rounds a group of an input row, from element `first` on, given as vectors.
  void roundGroup(ArrayRef<Value> vectors, Value token, Value first) const;
  /// Asks for the part of a later block of columns that is as far into it as group `group` is into this one.
  void prefetch(const WeightMatrix &matrix, Value column, Value group) const;

  VectorBuilder v;
  MxFp4Decoder decoder;
  int64_t groups;
  /// Inputs are multiplied as pairs of bf16.
  bool pairs, fixedOrder;
  SmallVector<int64_t> tokenBlocks;
  SmallVector<MatrixRow> inputs;
  /// The scales of a block, [groups, lanes].
  Value decoded;
  /// Where the rounded input rows are, if they are rounded: as f32, or as bf16 in the order of the decoder's pairs.
  Value rounded;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_MXFP4COLUMNS_H
