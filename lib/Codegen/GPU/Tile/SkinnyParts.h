//===- SkinnyParts.h - what products of few rows with a bf16 matrix are made of -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// out[t, n] = sum_k x[t, k] weight[n, k]. A warp has a tile of 16 rows of the weight and a slice of k. Every lane loads
// 16 bytes of its two rows per step of 32 k and feeds them to mma.sync as they lie: since the order of k does not
// matter, the eight values of a lane stand for the pairs that the instruction wants of it. So it is with x, of which a
// lane has eight k of one row; a group of eight rows costs what one row costs.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_SKINNYPARTS_H
#define K3_CODEGEN_GPU_TILE_SKINNYPARTS_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// How the warps of a block share rows of the weight and k: a warp for each slice of k and each tile of rows.
struct SkinnyCut {
  int64_t rows = 0, depth = 0;
  int64_t slices = 1, tiles = 1;

  static constexpr int64_t tileRows = 16;
  int64_t warps() const { return slices * tiles; }
  int64_t rowsPerBlock() const { return tiles * tileRows; }
};

/// Where operands are; pointers are ptr<1>.
struct SkinnyOperands {
  static constexpr int64_t tileRows = SkinnyCut::tileRows, groupInputs = 8, stepDepth = 32;
  /// k that a lane has of a step, in a tile's row as in a group's.
  static constexpr int64_t laneDepth = 8;
  /// Registers of weights per step: four of each of two rows.
  static constexpr int64_t stepWords = 8;

  /// First element (k = 0) of a row of the weight, 16-byte aligned; of a row of x.
  function_ref<Value(Value row)> weightRow, inputRow;
  /// The eight values of x at a pointer, as f32; or, if x is bf16, as four i32.
  function_ref<SmallVector<Value>(Value pointer)> loadInput;
  Type inputType;
  /// bf16 terms that a f32 x is split into; of one, x is rounded (also if it is bf16, whose sums are then longer).
  int64_t terms = 1;
  function_ref<void(Value input, Value row, Value sum)> store;

  int64_t inputTerms() const { return inputType.isBF16() ? 1 : terms; }
};

/// Eight values of x, as `loadInput` gives them, as terms of four pairs each.
SmallVector<SmallVector<Value>> splitInput(const GpuBuilder &g, const SkinnyOperands &operands, ValueRange values);

/// What the lane has of a step of its two rows of the weight, which begin at these pointers.
SmallVector<Value> loadWeightStep(const GpuBuilder &g, ValueRange pointers);

/// Four sums of the lane, for a tile and a group, + the products of a step. Tensor cores cut sums instead of rounding
/// them: where x is not rounded, sums of one step are short, and f32 additions join them.
SmallVector<Value> multiplyStep(const GpuBuilder &g, const SkinnyOperands &operands, ValueRange weight,
                                ArrayRef<SmallVector<Value>> x, ValueRange sums);

/// Sums of a block: a warp has those of a slice of a tile, for some groups of eight inputs.
struct SkinnySums {
  int64_t tiles, slices, groups;

  int64_t sharedBytes() const { return tiles * slices * warpWords() * 4; }
  /// Adds the slices' sums, in their order, and stores them: `sums` has four per group, of tile `tile` (of the block's,
  /// which begin with row `firstRow` of `rows`) and slice `slice`, for inputs from `begin` on, but below `end`.
  /// Collective, through shared memory from 0 on.
  void store(const GpuBuilder &g, const SkinnyOperands &operands, Value tile, Value slice, Value begin, Value end,
             Value firstRow, int64_t rows, ValueRange sums) const;

private:
  /// Words between two inputs' sums of a tile, so that the lanes of a warp write to different banks.
  static constexpr int64_t stride = 20;
  int64_t warpWords() const { return groups * SkinnyOperands::groupInputs * stride; }
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_SKINNYPARTS_H
