//===- SmallBatch.h - products of some tens of rows with a bf16 matrix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Of more than eight rows of a bf16 x, reading x would take longer than reading the weight, if every warp did it for
// its own rows. So the warps of a slice of k have several tiles of the weight, and share x: in pieces of two steps it
// is copied to shared memory, some pieces ahead, in the order that lanes want it.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_SMALLBATCH_H
#define K3_CODEGEN_GPU_TILE_SMALLBATCH_H

#include "lib/Codegen/GPU/Tile/SkinnyParts.h"

namespace mlir::k3 {

/// The cut for such a batch.
struct SmallBatchShape : SkinnyCut {
  /// Groups of eight rows of x in a pass, at most. A power of two.
  int64_t groups = 2;

  /// Of blocks with `warps` warps, which have `leastTiles` tiles at least: as many tiles as leave enough blocks.
  static SmallBatchShape choose(int64_t rows, int64_t depth, int64_t copies, int64_t warps, int64_t leastTiles,
                                bool fewInputs, const GpuTarget &target);
  int64_t sharedBytes() const;

private:
  /// What a slice has in shared memory, for `groups` groups.
  int64_t sliceBytes(int64_t groups) const;
};

/// The products of rows [begin, end) of x (i32, uniform), which start at multiples of 16 bytes, with the block's rows
/// of the weight. `firstRow` (i32): where rows of the block begin if every block has `leastTiles` tiles; with more, the
/// last blocks have nothing to do. Collective.
void emitSmallBatch(const GpuBuilder &g, const SmallBatchShape &shape, const SkinnyOperands &operands, Value begin,
                    Value end, Value firstRow, int64_t leastTiles);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_SMALLBATCH_H
