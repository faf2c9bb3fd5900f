//===- SkinnyProduct.h - products of few rows with a bf16 matrix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// out[t, n] = sum_k x[t, k] weight[n, k] where reading the weight is what takes time. A warp has 16 rows of the weight and
// a slice of k: every lane loads 16 bytes of its two rows per 32 k, several steps ahead, and feeds them to mma.sync as they
// lie: since the order of k does not matter, the eight values of a lane stand for the pairs that the instruction wants of
// it. Eight rows of x cost what one costs. Slices are added through shared memory at the end.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_SKINNYPRODUCT_H
#define K3_CODEGEN_GPU_TILE_SKINNYPRODUCT_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// How the warps of a block share rows and k.
struct SkinnyShape {
  int64_t rows = 0, depth = 0;
  /// Slices of k; groups of 16 rows; a warp for each of both.
  int64_t slices = 1, tiles = 1;

  static constexpr int64_t tileRows = 16, stepDepth = 32;
  /// Rows of x that a pass takes where there are more than eight.
  static constexpr int64_t manyInputs = 32;

  int64_t warps() const { return slices * tiles; }
  int64_t threads() const { return 32 * warps(); }
  int64_t rowsPerBlock() const { return tiles * tileRows; }
  int64_t sharedBytes() const;

  /// `copies` such products run side by side. `fewInputs`: at most some tens, so that the multiprocessors must be filled
  /// by cutting the weight.
  static SkinnyShape choose(int64_t rows, int64_t depth, int64_t copies, bool fewInputs, const GpuTarget &target);
  /// Whether depth suits 16-byte loads of the weight.
  static bool supports(int64_t depth) { return depth > 0 && depth % 8 == 0; }
};

/// Where operands are; pointers are ptr<1>.
struct SkinnyOperands {
  /// First element (k = 0) of a row of the weight, 16-byte aligned; of a row of x.
  function_ref<Value(Value row)> weightRow, inputRow;
  /// The eight values of x at a pointer, as f32; or, if x is bf16, as four i32.
  function_ref<SmallVector<Value>(Value pointer)> loadInput;
  Type inputType;
  /// bf16 terms that a f32 x is split into; of one, x is rounded (also if it is bf16, whose sums are then longer).
  int64_t terms = 1;
  function_ref<void(Value input, Value row, Value sum)> store;
};

/// The products of rows [begin, end) of x (i32, uniform) with the rows of the weight from number `firstRow` (i32) on that
/// are the block's. Collective.
void emitSkinnyProduct(const GpuBuilder &g, const SkinnyShape &shape, const SkinnyOperands &operands, Value begin,
                       Value end, Value firstRow);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_SKINNYPRODUCT_H
