//===- Runs.h - rows of tensors in runs of aligned elements -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Emitters cut rows into runs: consecutive elements that one thread handles together. How many instructions move a run
// depends on how the tensor, possibly a slice or reshape of a buffer, is aligned.
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_RUNS_H
#define K3_CODEGEN_GPU_TILE_RUNS_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// The most elements (a power of two, at most what one instruction moves) that are aligned to their size wherever the last
/// index is a multiple of it. Buffers start at multiples of 16 bytes.
int64_t getAlignedElements(Value memref);

/// The longest run, at most `most`, that divides `width`.
int64_t getRunLength(int64_t width, int64_t most);

/// The run length for rows of `width` elements that are read or written in all of `tensors`: what one 16-byte instruction
/// moves of the narrowest of them.
int64_t getRunLength(int64_t width, ValueRange tensors);

/// A tensor whose rows are moved in runs that start at multiples of `run`.
class RunTensor {
public:
  RunTensor(const GpuBuilder &g, Value memref, int64_t run, bool readOnly = false)
      : g(g), memref(memref), run(run), piece(std::min(run, getAlignedElements(memref))), readOnly(readOnly) {}

  Type elementType() const { return GpuBuilder::elementType(memref); }
  /// The run that starts at these indices, as f32.
  SmallVector<Value> load(ValueRange indices) const;
  SmallVector<Value> load(Value pointer) const;
  void store(ArrayRef<Value> values, ValueRange indices) const;
  void store(ArrayRef<Value> values, Value pointer) const;

private:
  const GpuBuilder &g;
  Value memref;
  int64_t run, piece;
  bool readOnly;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_RUNS_H
