//===- FuseMoe.cpp - gate, up and gated unit of the experts as one op -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FUSEMOE
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct FuseMoePass : k3::impl::FuseMoeBase<FuseMoePass> {
  void runOnOperation() override;
};
} // namespace

/// The contraction behind `rows`, `[T * k, n]`, if nothing else reads it.
static MoeGroupedContractOp getContraction(Value rows) {
  auto merge = rows.getDefiningOp<tensor::CollapseShapeOp>();
  if (!merge || !merge->hasOneUse())
    return {};
  auto contraction = merge.getSrc().getDefiningOp<MoeGroupedContractOp>();
  if (!contraction || !contraction->hasOneUse() || contraction.getUpWeight())
    return {};
  return contraction;
}

void FuseMoePass::runOnOperation() {
  SmallVector<GluOp> units;
  getOperation().walk([&](GluOp unit) { units.push_back(unit); });
  for (GluOp unit : units) {
    MoeGroupedContractOp gate = getContraction(unit.getGate()), up = getContraction(unit.getUp());
    if (!gate || !up || !unit->hasOneUse())
      continue;
    auto split = dyn_cast<tensor::ExpandShapeOp>(*unit->user_begin());
    if (!split || split.getType() != gate.getResult(0).getType())
      continue;
    auto opts = remark::RemarkOpts::name("GatedExperts").category("k3-fuse-moe").function(getOperation().getName());
    if (gate.getX() != up.getX() || gate.getOffsets() != up.getOffsets() || gate.getPerm() != up.getPerm()) {
      remark::missed(unit.getLoc(), opts) << remark::reason("gate and up do not contract the same rows");
      continue;
    }
    OpBuilder b(split);
    auto fused = MoeGroupedContractOp::create(
        b, unit.getLoc(), gate.getResult(0).getType(), gate.getX(), gate.getOffsets(), gate.getPerm(), gate.getWeight(),
        gate.getScale(), up.getWeight(), up.getScale(), gate.getOut(), unit.getActivationAttr(), unit.getBetaAttr(),
        unit.getLinearBetaAttr(), gate.getKernelConfigAttr(), gate.getBf16XAttr(), gate.getFixedOrderAttr());
    split.getResult().replaceAllUsesWith(fused.getResult(0));
    split.erase();
    unit.erase();
    remark::passed(fused.getLoc(), opts) << "gate, up and gated unit are one contraction";
  }
  // The contractions and their destinations have no users left.
  eraseDeadOps(getOperation());
}
