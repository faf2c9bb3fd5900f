//===- ExpertSchedule.h - which rows of which expert are done together -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_EXPERTSCHEDULE_H
#define K3_CODEGEN_GPU_TILE_EXPERTSCHEDULE_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// Some rows of one expert (i32 all): positions [begin, begin + count) in the order of experts.
struct ExpertPass {
  Value expert, begin, count;
};

/// Cuts the rows of every expert into passes of at most `rowsPerPass`, as even as they can be, and numbers all passes.
/// Experts without rows have none.
class ExpertSchedule {
public:
  /// `offsets`: [E + 1] i32, the rows of expert e are those from offsets[e] up to offsets[e + 1]. Uses sharedBytes(E) bytes of
  /// shared memory from `sharedOffset` (a multiple of 16) on.
  ExpertSchedule(const GpuBuilder &g, Value offsets, int64_t rowsPerPass, int64_t sharedOffset);
  static int64_t sharedBytes(int64_t experts);

  /// Collective. Afterwards the memory is only read.
  void build();
  /// Passes of all experts (i32).
  Value total() const { return passes; }
  /// Pass number `number`, below total(), the same in all lanes of the warp, which all take part.
  ExpertPass find(Value number) const;

private:
  Value slot(Value expert) const;
  /// Where the first row of an expert, or the end of all rows, is kept.
  Value beginWord(Value expert) const;
  /// Keeps that, too.
  Value countPasses(Value expert) const;

  const GpuBuilder &g;
  Value offsets;
  int64_t experts, rowsPerPass, sharedOffset;
  Value passes;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_EXPERTSCHEDULE_H
