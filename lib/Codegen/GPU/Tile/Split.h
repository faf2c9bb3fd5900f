//===- Split.h - f32 operands of bf16 products -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A f32 is the sum of three bf16 up to 2^-24 of its size, so that products with bf16 on tensor cores, whose sums are f32,
// lose no more than f32 products do. Two leave 2^-16. GpuTarget::xTerms says how many there are.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_SPLIT_H
#define K3_CODEGEN_GPU_TILE_SPLIT_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// Packed pairs (i32) of the first `terms` bf16 terms, largest first, of the pair (low, high).
SmallVector<Value> splitPair(const GpuBuilder &g, Value low, Value high, int64_t terms);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_SPLIT_H
