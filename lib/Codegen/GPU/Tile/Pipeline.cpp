//===- Pipeline.cpp - places in shared memory that go round -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/Pipeline.h"
#include "lib/Codegen/GPU/Tile/Atoms.h"

using namespace mlir;
using namespace mlir::k3;

void Ring::init(int64_t producers, int64_t consumers) const {
  for (int64_t stage = 0; stage < stages; ++stage) {
    initBarrier(g, full(g.i32(stage)), producers);
    initBarrier(g, empty(g.i32(stage)), consumers);
  }
}

RingPosition Ring::next(const RingPosition &position) const {
  if (stages == 1)
    return {position.stage, g.bitXor(position.parity, 1)};
  Value stage = g.add(position.stage, 1), wraps = g.eq(stage, stages);
  return {g.select(wraps, g.i32(0), stage), g.select(wraps, g.bitXor(position.parity, 1), position.parity)};
}

void Ring::waitFull(const RingPosition &position) const { waitBarrier(g, full(position.stage), position.parity); }

void Ring::waitEmpty(const RingPosition &position) const {
  waitBarrier(g, empty(position.stage), g.bitXor(position.parity, 1));
}
