//===- SkinnyParts.cpp - what products of few rows with a bf16 matrix are made of -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/SkinnyParts.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"
#include "lib/Codegen/GPU/Tile/Split.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::k3;

SmallVector<SmallVector<Value>> k3::splitInput(const GpuBuilder &g, const SkinnyOperands &operands, ValueRange values) {
  if (operands.inputType.isBF16())
    return {SmallVector<Value>(values)};
  SmallVector<SmallVector<Value>> split(operands.terms);
  for (int64_t pair = 0; pair < 4; ++pair)
    for (auto [term, words] :
         llvm::zip_equal(splitPair(g, values[2 * pair], values[2 * pair + 1], operands.terms), split))
      words.push_back(term);
  return split;
}

SmallVector<Value> k3::loadWeightStep(const GpuBuilder &g, ValueRange pointers) {
  SmallVector<Value> words;
  for (Value pointer : pointers) {
    Value four = g.loadRaw(pointer, g.vectorOf(4, g.i32()), /*readOnly=*/true);
    for (int64_t i = 0; i < 4; ++i)
      words.push_back(vector::ExtractOp::create(g.b, g.loc, four, ArrayRef<int64_t>{i}));
  }
  return words;
}

SmallVector<Value> k3::multiplyStep(const GpuBuilder &g, const SkinnyOperands &operands, ValueRange weight,
                                    ArrayRef<SmallVector<Value>> x, ValueRange sums) {
  bool isExact = operands.terms > 1;
  SmallVector<Value> own = isExact ? SmallVector<Value>(4, g.f32(0)) : SmallVector<Value>(sums);
  // Small terms first.
  for (const SmallVector<Value> &term : llvm::reverse(x))
    for (int64_t half : {0, 2}) {
      SmallVector<Value> a = {weight[half], weight[4 + half], weight[half + 1], weight[4 + half + 1]};
      own = multiplyStep(g, a, {term[half], term[half + 1]}, own);
    }
  if (isExact)
    for (auto [value, sum] : llvm::zip_equal(own, sums))
      value = g.add(sum, value);
  return own;
}

void SkinnySums::store(const GpuBuilder &g, const SkinnyOperands &operands, Value tile, Value slice, Value begin,
                       Value end, Value firstRow, int64_t rows, ValueRange sums) const {
  constexpr int64_t tileRows = SkinnyOperands::tileRows, groupInputs = SkinnyOperands::groupInputs;
  Value lane = g.laneId(), quad = g.rem(lane, 4), group = g.div(lane, 4);
  auto word = [&](Value number) { return g.advance(g.shared(int64_t(0)), number, g.f32()); };
  Value own = word(g.add(g.mul(g.add(g.mul(tile, slices), slice), warpWords()), g.add(g.mul(quad, 2 * stride), group)));
  for (int64_t i = 0; i < groups; ++i)
    for (int64_t j = 0; j < 4; ++j) // two inputs, then two rows
      g.storeRaw(sums[4 * i + j], g.advance(own, (groupInputs * i + j % 2) * stride + j / 2 * 8, g.f32()));
  g.barrier();
  int64_t inputs = groups * groupInputs;
  g.forThreads(tiles * inputs * tileRows, [&](Value number) {
    Value row = g.rem(number, tileRows), rest = g.div(number, tileRows);
    Value input = g.rem(rest, inputs), tileOfSum = g.div(rest, inputs);
    Value at = g.add(g.mul(tileOfSum, slices * warpWords()), g.add(g.mul(input, stride), row));
    Value outRow = g.add(firstRow, g.add(g.mul(tileOfSum, tileRows), row)), outInput = g.add(begin, input);
    g.ifThen(g.logicalAnd(g.lt(outRow, rows), g.lt(outInput, end)), [&] {
      Value sum = g.loadRaw(word(at), g.f32());
      for (int64_t s = 1; s < slices; ++s)
        sum = g.add(sum, g.loadRaw(word(g.add(at, s * warpWords())), g.f32()));
      operands.store(outInput, outRow, sum);
    });
  });
}
