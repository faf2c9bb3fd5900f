//===- DotProducts.cpp - input rows times rows of stored weights -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/DotProducts.h"
#include "lib/Codegen/CPU/MxFp4.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Elements of a row from which on one row at a time pays, because the rest of its work is small, and up to which it
/// pays, because the input row leaves half of the first level cache to the weights.
constexpr int64_t longRow = 512, smallInput = 4096;

class FloatDotProducts : public DotProducts {
public:
  FloatDotProducts(const VectorBuilder &v, int64_t depth, bool bf16Inputs, bool fixedOrder)
      : v(v), tile(v, depth, bf16Inputs, fixedOrder), sizes(v.getTarget()), depth(depth), fixedOrder(fixedOrder) {
    if (bf16Inputs && v.getTarget().avx512Bf16 && depth % (2 * v.lanes()) == 0)
      packed = v.temporary({sizes.inputs.front(), depth}, v.builder().getBF16Type());
  }

  ArrayRef<int64_t> getTokenBlocks() const override { return sizes.inputs; }
  int64_t getWeightRows(int64_t tokens) const override {
    // A row at a time is fast only with more than one chain of sums.
    return tokens == 1 && !fixedOrder && depth >= longRow && depth <= smallInput ? 1 : sizes.rows.front();
  }
  /// Rounds the rows now, once for all the weights they will meet, where that can be done.
  void setInputs(ArrayRef<MatrixRow> rows) override {
    inputs.assign(rows.begin(), rows.end());
    if (packed)
      for (auto [i, row] : llvm::enumerate(inputs)) {
        v.packRow(row.matrix, row.at, v.index(0), v.index(depth), packed, v.index(i));
        row = {packed, {v.index(i)}};
      }
  }

  SmallVector<Value> emit(ArrayRef<WeightRow> weights, int64_t) override {
    SmallVector<MatrixRow> rows;
    for (const WeightRow &row : weights)
      rows.push_back(row.weight);
    return tile.emit(rows, inputs, v.index(0), v.index(depth));
  }

private:
  VectorBuilder v;
  DotTile tile;
  DotTileSizes sizes;
  int64_t depth;
  bool fixedOrder;
  SmallVector<MatrixRow> inputs;
  Value packed;
};

} // namespace

std::unique_ptr<DotProducts> DotProducts::create(const VectorBuilder &v, Type element, int64_t depth, bool bf16Inputs,
                                                 bool fixedOrder) {
  if (element.isInteger(8))
    return std::make_unique<MxFp4DotProducts>(v, depth, bf16Inputs, fixedOrder);
  return std::make_unique<FloatDotProducts>(v, depth, bf16Inputs, fixedOrder);
}
