//===- NarrowActivations.cpp - bf16 buffers between ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_NARROWACTIVATIONS
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Whether `use` is the input of a product that rounds it to bf16.
static bool isRounded(OpOperand &use) {
  Operation *op = use.getOwner();
  if (!isa<LinearOp, MxContractOp, MoeGroupedContractOp>(op) || use.getOperandNumber() != 0)
    return false;
  std::optional<Attribute> rounds = op->getInherentAttr("bf16_x");
  return rounds && *rounds;
}

/// Ops that see the same elements in another shape.
static bool isReshape(Operation *op) { return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op); }

/// Collects `value` and its reshapes; false if anything reads elements without rounding them.
static bool collectRounded(Value value, SmallVectorImpl<Value> &reshapes) {
  reshapes.push_back(value);
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    if (isReshape(use.getOwner()))
      return collectRounded(use.getOwner()->getResult(0), reshapes);
    return isRounded(use) || isa<tensor::DimOp>(use.getOwner());
  });
}

/// The first destination of an op that computes in f32 and rounds what it stores, whatever its type; null otherwise.
static OpOperand *getRoundingDestination(Operation *op) {
  if (!isa<RmsNormOp, GluOp, SigmoidGateOp, LinearOp, MxContractOp, MoeGroupedContractOp, MoeCombineOp, AttnResMixOp,
           KdaGatedNormOp, KdaDecodeStepOp, MlaExpandOp>(op))
    return nullptr;
  if (cast<StructuredOpInterface>(op).readsInit(0))
    return nullptr;
  return &cast<DestinationStyleOpInterface>(op).getDpsInitsMutable()[0];
}

/// Collects the views that lead from a `tensor.empty` to `destination`, which nothing else uses.
static bool collectFresh(Value destination, SmallVectorImpl<Value> &views) {
  views.push_back(destination);
  Operation *op = destination.getDefiningOp();
  auto isOnlyUse = [](OpOperand &use) { return !isa<tensor::DimOp>(use.getOwner()); };
  if (!op || llvm::count_if(destination.getUses(), isOnlyUse) != 1)
    return false;
  return isa<tensor::EmptyOp>(op) || (isReshape(op) && collectFresh(op->getOperand(0), views));
}

static void narrow(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  value.setType(type.clone(BFloat16Type::get(type.getContext())));
}

namespace {
struct NarrowActivationsPass : k3::impl::NarrowActivationsBase<NarrowActivationsPass> {
  void runOnOperation() override {
    getOperation().walk([](StructuredOpInterface op) {
      OpOperand *destination = getRoundingDestination(op);
      if (!destination || !getElementTypeOrSelf(destination->get().getType()).isF32())
        return;
      Value result = cast<DestinationStyleOpInterface>(op.getOperation()).getTiedOpResult(destination);
      SmallVector<Value> values;
      if (result.use_empty() || !collectRounded(result, values) || !collectFresh(destination->get(), values))
        return;
      llvm::for_each(values, narrow);
    });
  }
};
} // namespace
