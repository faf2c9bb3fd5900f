//===- DotTile.cpp - register tiles of weight rows times input rows -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/DotTile.h"

using namespace mlir;
using namespace mlir::k3;

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

SmallVector<Value> DotTile::emit(ArrayRef<MatrixRow> rows, ArrayRef<MatrixRow> inputs, Value low, Value high) const {
  auto step = [&](ValueRange sums, function_ref<Value(const MatrixRow &)> load) {
    SmallVector<Value> weights, next(sums);
    for (const MatrixRow &row : rows)
      weights.push_back(load(row));
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
    return step(args, [&](const MatrixRow &row) { return v.load(row.matrix, row.index(k)); });
  });
  if (depth % v.lanes() == 0)
    return sums;
  // The rest that fills no vector. Where `high` ends before it the mask is empty and the step changes nothing.
  Value mask = v.mask(v.subIndex(high, end));
  return step(sums, [&](const MatrixRow &row) { return v.loadMasked(row.matrix, row.index(whole), mask); });
}
