//===- PlanBuffers.cpp - place the buffers of a program in one arena -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Transforms/Program/BufferPlan.h"
#include "lib/Transforms/Program/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_PLANBUFFERS
#include "lib/Transforms/Program/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
/// A buffer of one section with the groups that use it, both ends included.
struct Item {
  ExecBufferOp buffer;
  unsigned first, last;
  int64_t bytes, offset = 0;

  bool livesWith(const Item &other) const { return first <= other.last && other.first <= last; }
};
} // namespace

static LogicalResult getArenaBytes(ExecBufferOp buffer, int64_t &bytes) {
  std::optional<int64_t> size = buffer.getMaximalBytes();
  if (!size || *size > INT64_MAX / 4)
    return buffer.emitOpError() << "expected a size with a maximum, got " << buffer.getShape();
  bytes = llvm::alignTo(*size, kArenaAlignment);
  return success();
}

static void place(Builder &b, ExecBufferOp buffer, int64_t offset, int64_t bytes) {
  buffer.setArenaOffsetAttr(b.getI64IntegerAttr(offset));
  buffer.setArenaBytesAttr(b.getI64IntegerAttr(bytes));
}

/// The transient buffers of a section and when they live.
static LogicalResult collectItems(ExecProgramOp program, Operation *section, SmallVector<Item> &items) {
  llvm::MapVector<Operation *, std::pair<unsigned, unsigned>> lifetimes;
  for (auto [index, group] : llvm::enumerate(section->getRegion(0).getOps<ExecGroupOp>()))
    for (ExecDispatchOp dispatch : group.getDispatches())
      for (auto binding : dispatch.getBindings().getAsRange<BindingAttr>()) {
        if (binding.getKind() != BindingKind::buffer)
          continue;
        ExecBufferOp buffer = program.lookupBuffer(binding.getName());
        if (buffer.getRole() != BufferRole::transient)
          continue;
        auto [it, isNew] = lifetimes.insert({buffer, {index, index}});
        it->second.second = index;
      }
  for (auto [op, lifetime] : lifetimes) {
    Item item{cast<ExecBufferOp>(op), lifetime.first, lifetime.second, 0};
    if (failed(getArenaBytes(item.buffer, item.bytes)))
      return failure();
    items.push_back(item);
  }
  return success();
}

/// The smallest gap of at least `bytes` between the `taken` ranges (offset, end), which are sorted; else behind them.
static int64_t findGap(ArrayRef<std::pair<int64_t, int64_t>> taken, int64_t base, int64_t bytes) {
  int64_t best = -1, bestSize = INT64_MAX, cursor = base;
  for (auto [begin, end] : taken) {
    int64_t size = begin - cursor;
    if (size >= bytes && size < bestSize) {
      best = cursor;
      bestSize = size;
    }
    cursor = std::max(cursor, end);
  }
  return best >= 0 ? best : cursor;
}

/// Places `items` from `base` on; returns the end of the space used.
static int64_t placeItems(MutableArrayRef<Item> items, int64_t base) {
  SmallVector<Item *> order = llvm::to_vector(llvm::make_pointer_range(items));
  llvm::sort(order, [](const Item *lhs, const Item *rhs) {
    return lhs->bytes != rhs->bytes ? lhs->bytes > rhs->bytes : lhs < rhs;
  });
  int64_t end = base;
  for (size_t i = 0; i < order.size(); ++i) {
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (const Item *other : ArrayRef(order).take_front(i))
      if (order[i]->livesWith(*other))
        taken.emplace_back(other->offset, other->offset + other->bytes);
    llvm::sort(taken);
    order[i]->offset = findGap(taken, base, order[i]->bytes);
    end = std::max(end, order[i]->offset + order[i]->bytes);
  }
  return end;
}

static LogicalResult planProgram(ExecProgramOp program) {
  Builder b(program.getContext());
  int64_t base = 0;
  for (ExecBufferOp buffer : program.getBuffers()) {
    int64_t bytes = 0;
    if (buffer.getRole() != BufferRole::persistent)
      continue;
    if (failed(getArenaBytes(buffer, bytes)))
      return failure();
    place(b, buffer, base, bytes);
    base += bytes;
  }
  int64_t end = base;
  for (Operation *section : program.getSections()) {
    SmallVector<Item> items;
    if (failed(collectItems(program, section, items)))
      return failure();
    end = std::max(end, placeItems(items, base));
    for (const Item &item : items)
      place(b, item.buffer, item.offset, item.bytes);
  }
  program.setArenaBytesAttr(b.getI64IntegerAttr(end));
  return verifyBufferPlan(program);
}

namespace {
struct PlanBuffersPass : k3::impl::PlanBuffersBase<PlanBuffersPass> {
  using Base::Base;
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ExecProgramOp>())
      if (failed(checkOnly ? verifyBufferPlan(program) : planProgram(program)))
        return signalPassFailure();
  }
};
} // namespace
