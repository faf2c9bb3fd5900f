//===- MxFp4Columns.h - products with MXFP4 weights, features as lanes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The lanes of a vector belong to as many rows of the weight: 16 bytes of each, a group, are loaded, and squares of
// four lanes transposed. The elements of an input row are spread over the lanes by the load itself. So weights are
// decoded once for all input rows, a scale counts once per group and input row, and no lanes are added up. The codes of
// a group are loaded and transposed between the products of the group before: one after the other, the processor would
// do both at half of its speed, because it does not look far enough ahead.
//
// This is for short rows, of which a line (MxFp4.h) leaves much over, and whose sums over lanes cost as much as the
// rest. They are no streams that the hardware follows, so the next block of rows is asked for, be it of the next
// matrix. Long ones are streams as lines; so many of them side by side would not fit the first level cache.
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
  bool asksForNext() const override { return true; }
  void setInputs(ArrayRef<MatrixRow> rows) override;
  void emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) override;

private:
  /// The sums of every input row with as many of the `columns` rows of the weight as there are lanes, from `column` on;
  /// none behind `last`, where that is given.
  SmallVector<Value> emitBlock(const WeightMatrix &matrix, Value column, Value columns, Value last) const;
  /// The same of one group, without scales, while the codes of the next one are loaded.
  SmallVector<Value> emitGroup(ValueRange columns, Value group, MxFp4Decoder::ColumnLoad &next) const;
  /// Rounds a group of an input row, from element `first` on, given as vectors.
  void roundGroup(ArrayRef<Value> vectors, Value token, Value first) const;
  /// How many sums an input row has in a group, taken in turns: with few, an addition would wait for the one before.
  int64_t getChains() const;
  /// Of the codes of a block of columns.
  int64_t getBlockBytes() const;
  /// The first row of the block of columns to ask for while the one from `column` on is worked on.
  WeightRow getAhead(const WeightMatrix &matrix, Value column, Value columns) const;
  /// Asks for the part of that block that is as far into it as group `group` is into this one.
  void prefetch(const WeightRow &ahead, Value group) const;

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
