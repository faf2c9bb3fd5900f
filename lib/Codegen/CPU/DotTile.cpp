//===- DotTile.cpp - register tiles of weight rows times input rows -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/DotTile.h"

using namespace mlir;
using namespace mlir::k3;

/// Sums that hide the latency of additions behind what memory delivers.
static constexpr int64_t minSums = 2;
SmallVector<Value> MatrixRow::index(Value last) const {
  SmallVector<Value> indices(at);
  indices.push_back(last);
  return indices;
}

DotTileSizes::DotTileSizes(const TargetModel &target) {
  rows = {4, 1};
  if (target.vectorRegisters >= 32)
    inputs = {6, 4, 2, 1}; // 24 sums, 4 weights
  else
    inputs = {2, 1}; // 8 sums, 4 weights
}

void DotTile::prefetch(ArrayRef<MatrixRow> rows, Value k, int64_t ahead) const {
  if (ahead == 0)
    return;
  // Into the second level: the first one is full of input rows, and memory is too far for its few misses at a time.
  for (const MatrixRow &row : rows)
    v.prefetch(row.matrix, MatrixRow{row.matrix, {v.addIndex(row.at.front(), v.index(ahead))}}.index(k), /*level=*/2);
}

Value DotTile::emitPairs(ArrayRef<MatrixRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high, int64_t ahead,
                         SmallVector<Value> &sums) const {
  int64_t step = 2 * v.lanes();
  Value end = v.minIndex(high, v.index(depth - depth % step));
  sums = v.loop(low, end, v.index(step), sums, [&](Value k, ValueRange args) {
    SmallVector<Value> next(args), weights;
    prefetch(rows, k, ahead);
    for (const MatrixRow &row : rows)
      weights.push_back(v.loadRaw(row.matrix, row.index(k), step));
    for (auto [i, input] : llvm::enumerate(inputs)) {
      bool rounded = cast<MemRefType>(input.matrix.getType()).getElementType().isBF16();
      Value x = rounded ? v.loadRaw(input.matrix, input.index(k), step)
                        : v.packBf16(v.load(input.matrix, input.index(k)),
                                     v.load(input.matrix, input.index(v.addIndex(k, v.index(v.lanes())))));
      for (size_t r = 0; r < rows.size(); ++r) {
        Value &sum = next[i * rows.size() + r];
        sum = v.dotBf16(weights[r], x, sum);
      }
    }
    return next;
  });
  return end;
}

SmallVector<Value> DotTile::emit(ArrayRef<MatrixRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high,
                                 int64_t ahead) const {
  int64_t count = rows.size() * inputs.size(), lanes = v.lanes();
  // Adds to the sums from `first` on.
  auto step = [&](ValueRange sums, int64_t first, function_ref<Value(const MatrixRow &)> load) {
    SmallVector<Value> weights, next(sums);
    for (const MatrixRow &row : rows)
      weights.push_back(load(row));
    for (auto [i, input] : llvm::enumerate(inputs)) {
      Value x = load(input);
      if (bf16Inputs)
        x = v.roundToBf16(x);
      for (size_t r = 0; r < rows.size(); ++r) {
        Value &sum = next[first + i * rows.size() + r];
        sum = v.fma(weights[r], x, sum);
      }
    }
    return next;
  };
  auto stepAt = [&](ValueRange sums, int64_t first, Value k) {
    return step(sums, first, [&](const MatrixRow &row) { return v.load(row.matrix, row.index(k)); });
  };
  SmallVector<Value> paired(count, v.zero());
  bool pairs = bf16Inputs && v.getTarget().avx512Bf16;
  if (pairs)
    low = emitPairs(rows, inputs, low, high, ahead, paired);
  Value whole = v.index(depth - depth % lanes);
  Value end = v.minIndex(high, whole);
  // With few sums an addition would wait for the one before, so neighbouring vectors go to different chains of sums.
  int64_t chains = fixedOrder ? 1 : std::max<int64_t>(1, minSums / count);
  SmallVector<Value> sums(count * chains, v.zero());
  llvm::copy(paired, sums.begin());
  if (chains > 1) {
    Value width = v.index(chains * lanes);
    Value chained = v.addIndex(low, v.mulIndex(v.divIndex(v.subIndex(end, low), width), width));
    sums = v.loop(low, chained, width, sums, [&](Value k, ValueRange args) {
      SmallVector<Value> next(args);
      for (int64_t chain = 0; chain < chains; ++chain)
        next = stepAt(next, chain * count, v.addIndex(k, v.index(chain * lanes)));
      return next;
    });
    for (int64_t i = count; i < count * chains; ++i)
      sums[i % count] = v.add(sums[i % count], sums[i]);
    sums.resize(count);
    low = chained;
  }
  sums = v.loop(low, end, v.index(lanes), sums, [&](Value k, ValueRange args) {
    prefetch(rows, k, ahead);
    return stepAt(args, 0, k);
  });
  if (depth % v.lanes() == 0)
    return sums;
  // The rest that fills no vector, in the last block only: under a condition rather than a mask that is sometimes
  // empty, because masks that are not constant make bf16 loads a library call on targets without masked ones.
  Value isLast = v.compare(arith::CmpIPredicate::eq, high, v.index(depth));
  Value mask = v.mask(depth % lanes);
  return v.loop(v.select(isLast, v.index(0), v.index(1)), v.index(1), v.index(1), sums, [&](Value, ValueRange args) {
    return step(args, 0, [&](const MatrixRow &row) { return v.loadMasked(row.matrix, row.index(whole), mask); });
  });
}
