//===- FuseKdaDecode.cpp - a decoding KDA layer as one op -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FUSEKDADECODE
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// The ops of one layer, or null where they do not have the form.
struct Layer {
  KdaShortConvOp q, k, v;
  KdaGateOp gate;
  KdaRecurrentStepOp step;
  KdaGatedNormOp norm;
};

struct FuseKdaDecodePass : k3::impl::FuseKdaDecodeBase<FuseKdaDecodePass> {
  void runOnOperation() override;
};

} // namespace

/// The convolution whose output, by heads, is `value` and is used for nothing else.
static KdaShortConvOp getConv(Value value, Value slots) {
  auto heads = value.getDefiningOp<tensor::ExpandShapeOp>();
  auto conv = heads ? heads.getSrc().getDefiningOp<KdaShortConvOp>() : KdaShortConvOp();
  bool fits = conv && heads.getSrc() == conv.getResult(0) && heads->hasOneUse() && conv.getResult(0).hasOneUse() &&
              conv.getSilu() && conv.getSlots() == slots;
  return fits ? conv : KdaShortConvOp();
}

static std::optional<Layer> match(KdaGatedNormOp norm) {
  Layer layer;
  layer.norm = norm;
  layer.step = norm.getX().getDefiningOp<KdaRecurrentStepOp>();
  if (!layer.step || norm.getX() != layer.step.getResult(0) || !norm.getX().hasOneUse() || !layer.step.getG())
    return std::nullopt;
  layer.gate = layer.step.getG().getDefiningOp<KdaGateOp>();
  if (!layer.gate || !layer.step.getG().hasOneUse())
    return std::nullopt;
  layer.q = getConv(layer.step.getQ(), layer.step.getSlots());
  layer.k = getConv(layer.step.getK(), layer.step.getSlots());
  layer.v = getConv(layer.step.getV(), layer.step.getSlots());
  if (!layer.q || !layer.k || !layer.v)
    return std::nullopt;
  // One number of taps, and the new states are not needed before the op that will make them.
  int64_t taps = getStaticNamedDim(layer.q, "taps");
  for (Operation *op : {layer.q.getOperation(), layer.k.getOperation(), layer.v.getOperation(),
                        layer.step.getOperation()}) {
    if (op != layer.step.getOperation() && getStaticNamedDim(op, "taps") != taps)
      return std::nullopt;
    for (Operation *user : op->getResult(1).getUsers())
      if (user->getBlock() != norm->getBlock() || user->isBeforeInBlock(norm))
        return std::nullopt;
  }
  return layer;
}

/// Erases the reshapes and the destination that make `value`, as far as nothing uses them.
static void eraseUnused(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !op->use_empty() || !isa<tensor::EmptyOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return;
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    eraseUnused(operand);
}

static void fuse(const Layer &layer) {
  KdaGatedNormOp norm = layer.norm;
  KdaRecurrentStepOp step = layer.step;
  KdaGateOp gate = layer.gate;
  KdaShortConvOp q = layer.q, k = layer.k, v = layer.v;
  OpBuilder b(norm);
  SmallVector<Type> types = {norm.getOut().getType(), step.getState().getType(), q.getState().getType(),
                             k.getState().getType(), v.getState().getType()};
  auto fused = KdaDecodeStepOp::create(
      b, norm.getLoc(), types, q.getX(), k.getX(), v.getX(), gate.getZ(), step.getBeta(), norm.getGate(), q.getWeight(),
      k.getWeight(), v.getWeight(), gate.getDtBias(), norm.getWeight(), step.getSlots(), gate.getALog(), norm.getOut(),
      step.getState(), q.getState(), k.getState(), v.getState(), gate.getKindAttr(), gate.getLowerBoundAttr(),
      step.getScaleAttr(), step.getL2normAttr(), step.getDeltaAttr(), norm.getEpsAttr(), /*kernel_config=*/nullptr);
  norm->replaceAllUsesWith(ValueRange{fused.getResult(0)});
  step.getResult(1).replaceAllUsesWith(fused.getResult(1));
  q.getResult(1).replaceAllUsesWith(fused.getResult(2));
  k.getResult(1).replaceAllUsesWith(fused.getResult(3));
  v.getResult(1).replaceAllUsesWith(fused.getResult(4));
  // Users first; reshapes and destinations go with them.
  for (Operation *op : {norm.getOperation(), step.getOperation(), gate.getOperation(), q.getOperation(),
                        k.getOperation(), v.getOperation()}) {
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      eraseUnused(operand);
  }
}

void FuseKdaDecodePass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (getPhase(function) != Phase::decode)
    return;
  SmallVector<KdaGatedNormOp> norms;
  function.walk([&](KdaGatedNormOp norm) { norms.push_back(norm); });
  for (KdaGatedNormOp norm : norms) {
    std::optional<Layer> layer = match(norm);
    if (!layer)
      continue;
    remark::passed(norm.getLoc(), remark::RemarkOpts::name("DecodeStep")
                                      .category("k3-fuse-kda-decode")
                                      .function(function.getName()))
        << "convolutions, gates, step and norm";
    fuse(*layer);
  }
}
