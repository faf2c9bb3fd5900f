//===- Split.cpp - f32 operands of bf16 products -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/Split.h"

using namespace mlir;
using namespace mlir::k3;

SmallVector<Value> k3::splitPair(const GpuBuilder &g, Value low, Value high, int64_t terms) {
  SmallVector<Value> pairs;
  for (int64_t term = 0; term < terms; ++term) {
    pairs.push_back(g.packBf16(low, high));
    if (term + 1 == terms)
      break;
    // What rounding left is exact in f32.
    auto [roundedLow, roundedHigh] = g.unpackBf16(pairs.back());
    low = g.sub(low, roundedLow);
    high = g.sub(high, roundedHigh);
  }
  return pairs;
}
