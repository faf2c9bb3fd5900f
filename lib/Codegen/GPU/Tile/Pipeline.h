//===- Pipeline.h - places in shared memory that go round -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_TILE_PIPELINE_H
#define K3_CODEGEN_GPU_TILE_PIPELINE_H

#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// Where a producer or a consumer of a ring is: the number of a stage, and the parity of the round (i32 both). Loops carry
/// them.
struct RingPosition {
  Value stage, parity;
};

/// `stages` places that producers fill and consumers empty in turn. Each has a barrier that ends a phase when it is full
/// and one when it is empty.
class Ring {
public:
  /// The barriers are in shared memory from byte `offset` (a multiple of 8) on.
  Ring(const GpuBuilder &g, int64_t stages, int64_t offset) : g(g), stages(stages), offset(offset) {}
  static int64_t barrierBytes(int64_t stages) { return 16 * stages; }

  /// By one thread, before a barrier of the block: what arrives at each of the barriers in a round.
  void init(int64_t producers, int64_t consumers) const;

  RingPosition start() const { return {g.i32(0), g.i32(0)}; }
  RingPosition next(const RingPosition &position) const;
  /// ptr<3>
  Value full(Value stage) const { return barrier(stage, 0); }
  Value empty(Value stage) const { return barrier(stage, stages); }
  void waitFull(const RingPosition &position) const;
  /// Not at all in the first round.
  void waitEmpty(const RingPosition &position) const;

private:
  Value barrier(Value stage, int64_t first) const {
    return g.advance(g.shared(offset + 8 * first), stage, g.i64());
  }
  const GpuBuilder &g;
  int64_t stages, offset;
};

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_TILE_PIPELINE_H
