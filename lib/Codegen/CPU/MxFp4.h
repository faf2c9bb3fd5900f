//===- MxFp4.h - MXFP4 weights decoded in registers -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A group is 32 weights: 16 bytes of E2M1 codes, weight 2j in the low and 2j + 1 in the high half of byte j, and one
// E8M0 scale, 2^(code - 127), 255 = NaN.
//
// A vector of L i32 lanes is filled with codes as they lie in memory: a line of 8 L weights. Shifted right by 4 i it
// has weight 8 l + i of the line in the low bits of lane l, which one look-up turns into f32, with no masking. To
// match, the input rows are put into the same order once, before they meet all the weight rows. Four neighbouring lanes
// belong to one group, so one vector of scales serves all eight vectors of a line. Groups that fill no line share one
// with those of other rows: their products are added to the sums of the row that the lanes belong to. Rows of few lines
// go another way (MxFp4Columns.h).
//
// Products of bf16 pairs take the same line as 2 L words of 16 bits: shifted right by 4 i, word w looks up weight
// 4 w + i as bf16. A pair of words adds up in lane w / 2, whose group is that of lane w / 2 above, so the sums of a
// line are scaled by the same vector, in f32.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_MXFP4_H
#define K3_CODEGEN_CPU_MXFP4_H

#include "lib/Codegen/CPU/DotProducts.h"

namespace mlir::k3 {

/// Values of packed codes and scales; exact for all of them.
class MxFp4Decoder {
public:
  static constexpr int64_t groupSize = 32, groupBytes = 16;
  /// i32 lanes with the codes of a group.
  static constexpr int64_t groupLanes = groupBytes / 4;
  /// Vectors of weights in a line.
  static constexpr int64_t parts = 8;

  explicit MxFp4Decoder(const VectorBuilder &v) : v(v) {}
  /// The same where a vector is of bf16.
  static constexpr int64_t pairParts = 4;
  int64_t lineBytes() const { return 4 * v.lanes(); }
  int64_t lineWeights() const { return parts * v.lanes(); }
  int64_t lineGroups() const { return lineWeights() / groupSize; }

  /// The codes of line `line` of a row.
  Value loadLine(const MatrixRow &row, Value line) const;
  /// The codes of `groups` groups of each row, from group `first` on, one row after the other; the other lanes are 0.
  Value packLine(ArrayRef<MatrixRow> rows, int64_t first, int64_t groups) const;
  /// Loads the codes of group `group` of as many rows as there are lanes: vector j has those of weights 8 j to 8 j + 7 of
  /// row l in lane l, as a line has in its lanes. In steps, so that other work can be put between them.
  class ColumnLoad {
  public:
    ColumnLoad(const MxFp4Decoder &decoder, ArrayRef<MatrixRow> rows, Value group);
    /// Emits the next few instructions; false if there are none left.
    bool emitStep();
    /// Emits what is left and returns the vectors.
    SmallVector<Value> finish();

  private:
    const MxFp4Decoder &decoder;
    ArrayRef<MatrixRow> rows;
    Value byte;
    int64_t step = 0;
    SmallVector<Value> vectors, halves, columns;
  };
  /// Weights 8 l + `part` of a line.
  Value decode(Value codes, int64_t part) const;
  /// Weights 4 w + `part` of a line as bf16; for targets that have products of pairs.
  Value decodePairs(Value codes, int64_t part) const;
  /// Decodes the `groups` scales of row `from` (i8) into row `to` (f32).
  void decodeScales(const MatrixRow &from, const MatrixRow &to, int64_t groups) const;
  /// The decoded scales (f32) of a line, each in the lanes of its group.
  Value loadScales(const MatrixRow &row, Value line) const;
  /// The same from codes (i8): of line `line`, or of what packLine takes. The other lanes are finite.
  Value loadScaleCodes(const MatrixRow &row, Value line) const;
  Value packScaleCodes(ArrayRef<MatrixRow> rows, int64_t first, int64_t groups) const;
  /// Decodes all `groups` scales of as many rows as there are lanes, from `from` on, one row after the other in memory,
  /// into `to` [groups, lanes].
  void decodeColumnScales(const MatrixRow &from, Value to, int64_t groups) const;
  /// The scales (f32) from codes (i8) of group `group` of as many rows as there are lanes.
  Value loadColumnScales(ArrayRef<MatrixRow> rows, Value group) const;

private:
  /// `codes` with those of the group at `byte` of a row in the lanes from `lane` on.
  Value insertGroup(const MatrixRow &row, Value byte, Value codes, int64_t lane) const;
  /// Scales of the codes that are the bytes of an i32, each in the lanes of its group.
  Value decodeBytes(Value bytes) const;
  Value lookUp(Value codes) const;
  Value shift(Value bits, int32_t left) const;

  VectorBuilder v;
};

class MxFp4DotProducts : public DotProducts {
public:
  /// `depth` is a multiple of 32. `bf16Inputs`: inputs are rounded to bf16, and multiplied as pairs where the target
  /// can. `fixedOrder`: see DotTile.
  MxFp4DotProducts(const VectorBuilder &v, int64_t depth, bool bf16Inputs, bool fixedOrder);

  ArrayRef<int64_t> getTokenBlocks() const override { return tokenBlocks; }
  int64_t getWeightRows(int64_t tokens) const override;
  void setInputs(ArrayRef<MatrixRow> rows) override;
  SmallVector<Value> emit(ArrayRef<WeightRow> weights, int64_t stride) override;

private:
  /// A line of the inputs: `copies` copies of `groups` groups, then zeros.
  void setLine(ArrayRef<MatrixRow> rows, Value line, int64_t groups, int64_t copies);
  /// Sums of up to `togetherRows` weight rows.
  SmallVector<Value> emitWhole(ArrayRef<WeightRow> weights, int64_t stride);
  /// Adds what fills no line to the sums of all weight rows.
  void addRest(ArrayRef<WeightRow> weights, int64_t stride, MutableArrayRef<Value> sums);
  /// Adds the products of a line to the sums.
  SmallVector<Value> emitLine(ArrayRef<Value> codes, ArrayRef<Value> scales, Value line, ValueRange sums) const;
  SmallVector<Value> emitFloats(ArrayRef<Value> codes, ArrayRef<Value> scales, Value line, ValueRange sums) const;
  SmallVector<Value> emitPairs(ArrayRef<Value> codes, ArrayRef<Value> scales, Value line, ValueRange sums) const;
  void prefetch(const WeightRow &row, Value line, int64_t stride) const;
  /// Where vector `part` of line `line` of an input row is.
  Value inputIndex(Value line, int64_t token, int64_t part) const;

  /// Weight rows that go through their lines together: more sums would not fit the registers.
  static constexpr int64_t togetherRows = 2;

  VectorBuilder v;
  MxFp4Decoder decoder;
  int64_t depth;
  /// Inputs are rounded to bf16, and the buffer of inputs is of bf16.
  bool rounds, pairs;
  /// Vectors of a line.
  int64_t parts;
  SmallVector<int64_t> tokenBlocks;
  int64_t scaleSumsUpTo, tokens = 0;
  /// Whole lines of a row; of these, the first whose scales are decoded before, a vector at a time; groups behind them.
  int64_t lines, scaledLines, restGroups;
  /// Rows are short: a call takes four, whose sums over the lanes are cheap together.
  bool byFours;
  /// Weight rows whose rest shares a line.
  int64_t packedRows = 1;
  /// The input rows in the order of the weights, [lines, tokens, 8 L]. In the last line, where it is not whole, they
  /// are there for every one of the packed rows.
  Value inputs;
  /// The decoded scales of each weight row, [togetherRows, groups of scaledLines].
  Value scales;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_MXFP4_H
