//===- ExpertSchedule.cpp - which rows of which expert are done together -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/ExpertSchedule.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

/// Words: passes before each expert; from a multiple of 16 bytes on, sums of the block's warps; where each expert's rows begin.
static constexpr int64_t maxWarps = 32;
static int64_t sumsStart(int64_t experts) { return llvm::alignTo(experts, 4); }
static int64_t beginsStart(int64_t experts) { return sumsStart(experts) + maxWarps; }

int64_t ExpertSchedule::sharedBytes(int64_t experts) { return 4 * (beginsStart(experts) + experts + 1); }

ExpertSchedule::ExpertSchedule(const GpuBuilder &g, Value offsets, int64_t rowsPerPass, int64_t sharedOffset)
    : g(g), offsets(offsets), experts(GpuBuilder::staticDim(offsets, 0) - 1), rowsPerPass(rowsPerPass),
      sharedOffset(sharedOffset) {}

Value ExpertSchedule::slot(Value expert) const { return g.advance(g.shared(sharedOffset), expert, g.i32()); }

Value ExpertSchedule::beginWord(Value expert) const { return slot(g.add(expert, beginsStart(experts))); }

Value ExpertSchedule::countPasses(Value expert) const {
  Value begin = g.load(offsets, {expert}, true), end = g.load(offsets, {g.add(expert, 1)}, true);
  g.storeRaw(begin, beginWord(expert));
  g.ifThen(g.eq(expert, experts - 1), [&] { g.storeRaw(end, beginWord(g.i32(experts))); });
  return g.ceilDiv(g.sub(end, begin), rowsPerPass);
}

void ExpertSchedule::build() {
  // slot[e] = passes of the experts before e. Every thread has `own` neighbouring experts.
  int64_t own = llvm::divideCeil(experts, g.threads());
  Value thread = g.threadId(), lane = g.laneId(), zero = g.i32(0);
  SmallVector<Value> counts;
  Value sum = zero;
  for (int64_t i = 0; i < own; ++i) {
    Value expert = g.add(g.mul(thread, own), i);
    Value count = g.ifThenElse(
        g.lt(expert, experts), [&] { return SmallVector<Value>{countPasses(expert)}; },
        [&] { return SmallVector<Value>{zero}; })[0];
    counts.push_back(count);
    sum = g.add(sum, count);
  }
  // Sums of all lanes up to this one.
  Value running = sum;
  for (int64_t distance = 1; distance < 32; distance *= 2) {
    Value before = g.shuffleFrom(running, g.max(g.sub(lane, distance), 0));
    running = g.add(running, g.select(g.ge(lane, distance), before, zero));
  }
  Value warp = g.warpId();
  auto warpSlot = [&](Value number) { return slot(g.add(number, sumsStart(experts))); };
  g.ifThen(g.eq(lane, 31), [&] { g.storeRaw(running, warpSlot(warp)); });
  // The sums are read four at a time.
  g.ifFirstThread([&] {
    for (int64_t w = g.warps(); w % 4 != 0; ++w)
      g.storeRaw(zero, warpSlot(g.i32(w)));
  });
  g.barrier();
  Value before = g.sub(running, sum), all = zero;
  for (int64_t w = 0; w < g.warps(); ++w) {
    Value other = g.loadRaw(warpSlot(g.i32(w)), g.i32());
    before = g.add(before, g.select(g.lt(g.i32(w), warp), other, zero));
    all = g.add(all, other);
  }
  for (int64_t i = 0; i < own; ++i) {
    Value expert = g.add(g.mul(thread, own), i);
    g.ifThen(g.lt(expert, experts), [&] { g.storeRaw(before, slot(expert)); });
    before = g.add(before, counts[i]);
  }
  g.barrier();
  passes = all;
}

ExpertPass ExpertSchedule::find(Value number) const {
  // The last expert with slot[e] <= number: those without passes have the slot of the next one. Lanes try 32 at once.
  Value low = g.i32(0), lane = g.laneId();
  int64_t step = 1;
  while (step * 32 < experts)
    step *= 32;
  for (; step > 0; step /= 32) {
    Value own = g.add(low, g.mul(lane, step));
    Value start = g.loadRaw(slot(g.min(own, experts - 1)), g.i32());
    Value before = g.ballot(g.logicalAnd(g.lt(own, experts), g.le(start, number)));
    // Slots rise, so those of the first lanes are not above the number; that of lane 0 never is.
    Value count = g.intrinsic(g.i32(), "llvm.ctpop.i32", before);
    low = g.add(low, g.mul(g.sub(count, 1), step));
  }
  Value begin = g.loadRaw(beginWord(low), g.i32()), rows = g.sub(g.loadRaw(beginWord(g.add(low, 1)), g.i32()), begin);
  // Passes differ by one row at most.
  Value index = g.sub(number, g.loadRaw(slot(low), g.i32())), count = g.ceilDiv(rows, rowsPerPass);
  Value each = g.div(rows, count), larger = g.rem(rows, count);
  Value first = g.add(g.mul(index, each), g.min(index, larger));
  return {low, g.add(begin, first), g.add(each, g.select(g.lt(index, larger), g.i32(1), g.i32(0)))};
}
