//===- SkinnyProduct.h - products of few rows with a bf16 matrix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Reading the weight is what takes time. Every warp has a tile of the weight and a slice of k; loads are several steps
// ahead. Eight rows of x cost what one costs; of more bf16 ones, see SmallBatch.h. Slices are added through shared
// memory at the end.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_SKINNYPRODUCT_H
#define K3_CODEGEN_GPU_TILE_SKINNYPRODUCT_H

#include "lib/Codegen/GPU/Tile/SmallBatch.h"

namespace mlir::k3 {

/// The cut for up to eight rows of x, or for any number of an f32 x.
struct SkinnyShape : SkinnyCut {
  /// With more than eight rows of a bf16 x.
  std::optional<SmallBatchShape> batch;

  int64_t threads() const { return 32 * warps(); }
  int64_t sharedBytes() const;

  /// `copies` such products run side by side. `fewInputs`: at most some tens, so that the multiprocessors must be
  /// filled by cutting the weight.
  static SkinnyShape choose(int64_t rows, int64_t depth, int64_t copies, Type inputType, bool fewInputs,
                            const GpuTarget &target);
  /// Whether depth suits 16-byte loads of the weight.
  static bool supports(int64_t depth) { return depth > 0 && depth % 8 == 0; }
};

/// The products of rows [begin, end) of x (i32, uniform) with the rows of the weight from number `firstRow` (i32) on
/// that are the block's. Collective.
void emitSkinnyProduct(const GpuBuilder &g, const SkinnyShape &shape, const SkinnyOperands &operands, Value begin,
                       Value end, Value firstRow);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_SKINNYPRODUCT_H
