//===- FuseProjections.cpp - order ops so that independent ones are neighbours -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FUSEPROJECTIONS
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// Levels of the ops of one block.
class Scheduler {
public:
  explicit Scheduler(Block &block) : block(block) {}
  /// False if the block holds what cannot be moved.
  bool run();
  /// Structured ops per level.
  ArrayRef<SmallVector<Operation *>> getLevels() const { return levels; }

private:
  /// The value whose memory `value` is a part of.
  static Value getBase(Value value);
  /// The first level at which `value` is there.
  unsigned getReady(Value value) const;
  void assign(Operation *op);
  void move(Operation *op);

  Block &block;
  SmallVector<SmallVector<Operation *>> levels;
  DenseMap<Operation *, unsigned> levelOf;
  DenseMap<Value, SmallVector<Operation *>> readers;
  llvm::SmallPtrSet<Operation *, 32> moved;
};

struct FuseProjectionsPass : k3::impl::FuseProjectionsBase<FuseProjectionsPass> {
  void runOnOperation() override;
};

} // namespace

Value Scheduler::getBase(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

unsigned Scheduler::getReady(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &block)
    return 0;
  if (auto it = levelOf.find(op); it != levelOf.end())
    return it->second + 1;
  // Glue is ready with the last of its operands.
  unsigned ready = 0;
  for (Value operand : op->getOperands())
    ready = std::max(ready, getReady(operand));
  return ready;
}

void Scheduler::assign(Operation *op) {
  auto dps = cast<DestinationStyleOpInterface>(op);
  unsigned level = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    level = std::max(level, getReady(operand.get()));
    if (dps.isDpsInit(&operand))
      for (Operation *reader : readers.lookup(getBase(operand.get())))
        level = std::max(level, levelOf.lookup(reader) + 1);
  }
  for (OpOperand &operand : op->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()))
      readers[getBase(operand.get())].push_back(op);
  levelOf[op] = level;
  if (levels.size() <= level)
    levels.resize(level + 1);
  levels[level].push_back(op);
}

void Scheduler::move(Operation *op) {
  if (!moved.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp(); producer && producer->getBlock() == &block)
      move(producer);
  op->moveBefore(block.getTerminator());
  // A slice goes back where it came from at once: together with its op it is one update in place.
  for (Operation *user : op->getUsers())
    if (isa<StructuredOpInterface>(op) && isa<tensor::InsertSliceOp>(user))
      move(user);
}

bool Scheduler::run() {
  for (Operation &op : block.without_terminator()) {
    if (isa<StructuredOpInterface>(op))
      assign(&op);
    else if (!isPure(&op))
      return false;
  }
  for (ArrayRef<Operation *> level : levels)
    for (Operation *op : level)
      move(op);
  Operation *terminator = block.getTerminator();
  for (Value result : terminator->getOperands())
    if (Operation *producer = result.getDefiningOp(); producer && producer->getBlock() == &block)
      move(producer);
  return true;
}

void FuseProjectionsPass::runOnOperation() {
  if (getOperation().isExternal())
    return;
  eraseDeadOps(getOperation());
  for (Block &block : getOperation().getBody()) {
    Scheduler scheduler(block);
    if (!scheduler.run())
      continue;
    for (ArrayRef<Operation *> level : scheduler.getLevels()) {
      // Remarks speak of what the pass is for: several products of one input.
      llvm::SmallMapVector<Value, unsigned, 4> products;
      for (Operation *op : level)
        if (isa<LinearOp, MxContractOp>(op))
          ++products[op->getOperand(0)];
      for (auto [input, count] : products)
        if (count > 1)
          remark::passed(level.front()->getLoc(), remark::RemarkOpts::name("ProjectionsTogether")
                                                      .category("k3-fuse-projections")
                                                      .function(getOperation().getName()))
              << remark::metric("Projections", count) << remark::metric("OpsInLevel", level.size());
    }
  }
}
