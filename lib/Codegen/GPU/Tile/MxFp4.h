//===- MxFp4.h - MXFP4 weights decoded to bf16 in registers -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A group is 32 weights: 16 bytes of E2M1 codes, weight 2j in the low and 2j + 1 in the high half of byte j, and one E8M0
// scale, 2^(s - 127), 255 = NaN. Every product of a code and a scale is exact in bf16, subnormal ones included.
//
// The three low bits of a code, placed in bits 8 to 6 of a bf16 (two of exponent, one of mantissa), are its magnitude times
// 2^-126, also where the exponent is 0. One multiplication by 2^(s - 1) gives the weight; that factor is a bf16 for s up to
// 128, and larger scales, which models do not have, take two.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_MXFP4_H
#define K3_CODEGEN_GPU_TILE_MXFP4_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// The largest scale whose factor is a bf16.
inline constexpr int64_t maxPlainScale = 128;

/// The codes of a word (i32, 8 weights) in pairs of bf16 (i32), times 2^-126: pair p holds weight p in the low and weight
/// p + 4 in the high half.
SmallVector<Value> placeCodes(const GpuBuilder &g, Value word);
/// The same for words whose byte j holds weights 2j and 2j + 1 of a pair: pair j holds them in this order.
SmallVector<Value> placeNeighbours(const GpuBuilder &g, Value word);

/// What scales placed codes: a pair of bf16 with 2^(s - 1), for s (i32) up to maxPlainScale; and for any s, two of them
/// whose product it is.
Value getPlainFactor(const GpuBuilder &g, Value scale);
std::pair<Value, Value> getFactors(const GpuBuilder &g, Value scale);

/// Products of two pairs of bf16.
Value multiplyPairs(const GpuBuilder &g, Value x, Value y);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_MXFP4_H
