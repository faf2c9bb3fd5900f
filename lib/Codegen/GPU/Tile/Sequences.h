//===- Sequences.h - which sequence a row of a step belongs to -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_SEQUENCES_H
#define K3_CODEGEN_GPU_TILE_SEQUENCES_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// The sequence that has row `row`: the only n with cu[n] <= row < cu[n + 1], where 0 <= row < cu[N]. `cu` is a memref
/// [N + 1] of i32. Two loads where every sequence before has one row, as in decoding, else a binary search.
Value findSequence(const GpuBuilder &g, Value cu, Value row);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_SEQUENCES_H
