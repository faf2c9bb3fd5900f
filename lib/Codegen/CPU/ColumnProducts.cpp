//===- ColumnProducts.cpp - input rows times whole stored matrices -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/ColumnProducts.h"
#include "lib/Codegen/CPU/DotProducts.h"
#include "lib/Codegen/CPU/MxFp4Columns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Columns out of dot products, whose lanes are added up.
class SummedColumns : public ColumnProducts {
public:
  SummedColumns(const VectorBuilder &v, std::unique_ptr<DotProducts> products, int64_t matrices)
      : v(v), dot(std::move(products)), block(v.temporary({dot->getTokenBlocks().front(), matrices * v.lanes()})) {}

  ArrayRef<int64_t> getTokenBlocks() const override { return dot->getTokenBlocks(); }
  void setInputs(ArrayRef<MatrixRow> rows) override {
    tokens = static_cast<int64_t>(rows.size());
    dot->setInputs(rows);
  }
  void emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) override;

private:
  VectorBuilder v;
  std::unique_ptr<DotProducts> dot;
  /// Sums of a vector of columns, [tokens, lanes * matrices]: a column of all matrices after the other.
  Value block;
  int64_t tokens = 0;
};

} // namespace

void SummedColumns::emit(ArrayRef<WeightMatrix> matrices, Value columns, Finish finish) {
  int64_t count = matrices.size(), lanes = v.lanes();
  auto emitRows = [&](int64_t firstMatrix, int64_t lastMatrix, Value column, Value lane, int64_t rows) {
    SmallVector<WeightRow> weights;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t m = firstMatrix; m < lastMatrix; ++m) {
        Value row = v.addIndex(v.addIndex(column, lane), v.index(r));
        weights.push_back({{matrices[m].weight, {row}}, {matrices[m].scale, {row}}});
      }
    SmallVector<Value> sums = dot->emit(weights, rows);
    int64_t each = weights.size(), matricesNow = lastMatrix - firstMatrix;
    for (int64_t t = 0; t < tokens; ++t) {
      ArrayRef<Value> ofToken = ArrayRef(sums).slice(t * each, each);
      auto at = [&](int64_t sum) {
        Value row = v.addIndex(lane, v.index(sum / matricesNow));
        Value position = v.addIndex(v.mulIndex(row, v.index(count)), v.index(firstMatrix + sum % matricesNow));
        return SmallVector<Value>{v.index(t), position};
      };
      if (each == 4 && matricesNow == count) {
        vector::StoreOp::create(v.builder(), v.getLoc(), v.reduceAdd4(ofToken), block, at(0));
        continue;
      }
      for (auto [i, sum] : llvm::enumerate(v.reduceAddAll(ofToken)))
        v.storeScalar(sum, block, at(static_cast<int64_t>(i)));
    }
  };
  // The sums of `size` columns, `weightRows` weight rows at a time: of all matrices, or of one after the other.
  auto emitBlock = [&](Value column, Value size, int64_t weightRows) {
    int64_t together = weightRows >= count ? count : 1, rows = std::min(weightRows / together, lanes);
    for (int64_t m = 0; m < count; m += together)
      v.loop(v.index(0), size, v.index(rows), [&](Value lane) { emitRows(m, m + together, column, lane, rows); });
  };
  auto finishBlock = [&](Value column, Value mask) {
    for (int64_t t = 0; t < tokens; ++t) {
      SmallVector<Value> mixed, sums;
      for (int64_t m = 0; m < count; ++m)
        mixed.push_back(v.load(block, {v.index(t), v.index(m * lanes)}));
      for (int64_t m = 0; m < count; ++m) {
        SmallVector<int64_t> columns;
        for (int64_t lane = 0; lane < lanes; ++lane)
          columns.push_back(lane * count + m);
        sums.push_back(vector::ShuffleOp::create(v.builder(), v.getLoc(), mixed.front(), mixed.back(), columns));
      }
      finish(t, column, mask, sums);
    }
  };
  // Whole vectors of columns, then the columns that fill none.
  Value whole = v.mulIndex(v.divIndex(columns, v.index(lanes)), v.index(lanes));
  v.loop(v.index(0), whole, v.index(lanes), [&](Value column) {
    emitBlock(column, v.index(lanes), dot->getWeightRows(tokens));
    finishBlock(column, v.mask(lanes));
  });
  Value rest = v.subIndex(columns, whole);
  v.ifThen(v.compare(arith::CmpIPredicate::ne, rest, v.index(0)), [&] {
    emitBlock(whole, rest, 1);
    finishBlock(whole, v.mask(rest));
  });
}

std::unique_ptr<ColumnProducts> ColumnProducts::create(const VectorBuilder &v, Type element, int64_t depth,
                                                       int64_t matrices, bool bf16Inputs, bool fixedOrder) {
  if (element.isInteger(8) && MxFp4Columns::isBest(depth))
    return std::make_unique<MxFp4Columns>(v, depth, bf16Inputs, fixedOrder);
  return std::make_unique<SummedColumns>(v, DotProducts::create(v, element, depth, bf16Inputs, fixedOrder), matrices);
}
