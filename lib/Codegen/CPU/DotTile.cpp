//===- DotTile.cpp - register tiles of weight rows times input rows -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/DotTile.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::k3;

DotTileSizes::DotTileSizes(const TargetModel &target, bool packed) {
  rows = {4, 1};
  if (target.vectorRegisters < 32)
    inputs = {2, 1}; // 8 sums, 4 weights
  else if (packed)
    inputs = {4, 2, 1}; // 16 sums, 8 decoded weights, 2 inputs, the table
  else
    inputs = {6, 4, 2, 1}; // 24 sums, 4 weights
}

static SmallVector<Value> indices(const MatrixRow &row, Value last) {
  SmallVector<Value> all(row.at);
  all.push_back(last);
  return all;
}

SmallVector<Value> DotTile::emit(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high) const {
  return packed ? emitPacked(rows, inputs, low, high) : emitFloat(rows, inputs, low, high);
}

SmallVector<Value> DotTile::emitFloat(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs, Value low,
                                      Value high) const {
  auto step = [&](ValueRange sums, function_ref<Value(const MatrixRow &)> load) {
    SmallVector<Value> weights, next(sums);
    for (const WeightRow &row : rows)
      weights.push_back(load(row.codes));
    for (auto [i, input] : llvm::enumerate(inputs)) {
      Value x = load(input);
      for (size_t r = 0; r < rows.size(); ++r)
        next[i * rows.size() + r] = v.fma(weights[r], x, next[i * rows.size() + r]);
    }
    return next;
  };
  SmallVector<Value> sums(rows.size() * inputs.size(), v.zero());
  Value whole = v.index(depth - depth % v.lanes());
  Value end = v.minIndex(high, whole);
  sums = v.loop(low, end, v.index(v.lanes()), sums, [&](Value k, ValueRange args) {
    return step(args, [&](const MatrixRow &row) { return v.load(row.matrix, indices(row, k)); });
  });
  if (depth % v.lanes() == 0)
    return sums;
  // The rest that fills no vector. Where `high` ends before it the mask is empty and the step changes nothing.
  Value mask = v.mask(v.subIndex(high, end));
  return step(sums, [&](const MatrixRow &row) { return v.loadMasked(row.matrix, indices(row, whole), mask); });
}

SmallVector<Value> DotTile::emitPacked(ArrayRef<WeightRow> rows, ArrayRef<MatrixRow> inputs, Value low,
                                       Value high) const {
  // Byte j of a group holds weights 2j (low nibble) and 2j + 1, so `lanes` bytes meet the even and the odd elements of
  // 2 * lanes inputs.
  OpBuilder &b = v.builder();
  SmallVector<Value> sums(rows.size() * inputs.size(), v.zero());
  int64_t bytes = groupSize / 2, parts = bytes / v.lanes();
  auto group = [&](Value k, ValueRange args) {
    SmallVector<Value> next(args);
    Value byte = v.divIndex(k, v.index(2)), number = v.divIndex(k, v.index(groupSize));
    SmallVector<Value> scales;
    for (const WeightRow &row : rows)
      scales.push_back(v.broadcast(v.loadScalar(row.scales.matrix, indices(row.scales, number))));
    // With several inputs the scale goes into the weight once; with one it is cheaper to apply it to the group's sum.
    bool scaleSums = inputs.size() == 1;
    SmallVector<Value> groupSums(scaleSums ? rows.size() : 0);
    for (int64_t part = 0; part < parts; ++part) {
      Value from = v.addIndex(byte, v.index(part * v.lanes()));
      SmallVector<Value> even, odd;
      for (auto [row, scale] : llvm::zip_equal(rows, scales)) {
        Value codes = v.loadBytes(row.codes.matrix, indices(row.codes, from));
        even.push_back(v.decodeE2M1(codes));
        odd.push_back(v.decodeE2M1(arith::ShRUIOp::create(b, v.getLoc(), codes, v.constantInt(4))));
        if (!scaleSums) {
          even.back() = v.mul(even.back(), scale);
          odd.back() = v.mul(odd.back(), scale);
        }
      }
      for (auto [i, input] : llvm::enumerate(inputs)) {
        Value first = v.addIndex(k, v.index(2 * part * v.lanes()));
        Value x0 = v.load(input.matrix, indices(input, first));
        Value x1 = v.load(input.matrix, indices(input, v.addIndex(first, v.index(v.lanes()))));
        auto [xEven, xOdd] = v.deinterleave(x0, x1);
        for (size_t r = 0; r < rows.size(); ++r) {
          Value &sum = scaleSums ? groupSums[r] : next[i * rows.size() + r];
          sum = sum ? v.fma(even[r], xEven, sum) : v.mul(even[r], xEven);
          sum = v.fma(odd[r], xOdd, sum);
        }
      }
    }
    if (scaleSums)
      for (size_t r = 0; r < rows.size(); ++r)
        next[r] = v.fma(groupSums[r], scales[r], next[r]);
    return next;
  };
  return v.loop(low, high, v.index(groupSize), sums, group);
}

void DotTile::decodeScales(MatrixRow from, MatrixRow to) const {
  int64_t groups = depth / groupSize;
  v.loopVectors(groups, [&](Value offset, int64_t count) {
    Value codes = v.loadBytesPartial(from.matrix, indices(from, offset), count);
    v.storePartial(v.decodeE8M0(codes), to.matrix, indices(to, offset), count);
  });
}
