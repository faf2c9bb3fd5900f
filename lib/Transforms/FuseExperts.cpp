//===- FuseExperts.cpp - the routed experts of a decoding step as one op -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FUSEEXPERTS
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct FuseExpertsPass : k3::impl::FuseExpertsBase<FuseExpertsPass> {
  void runOnOperation() override;
};
} // namespace

/// The gated contraction whose rows `down` reads, and nobody else, if both can be one kernel.
static MoeGroupedContractOp getGated(MoeGroupedContractOp down) {
  auto gated = down.getX().getDefiningOp<MoeGroupedContractOp>();
  if (!gated || down.getUpWeight() || !gated.getUpWeight())
    return {};
  auto elementOf = [](Value value) { return getElementTypeOrSelf(value.getType()); };
  bool fits = gated->hasOneUse() && gated.getOffsets() == down.getOffsets() &&
              gated.getPerm() == down.getPerm() && elementOf(gated.getWeight()) == elementOf(down.getWeight()) &&
              gated.getBf16X() == down.getBf16X() && !gated.getFixedOrder() && !down.getFixedOrder();
  return fits ? gated : MoeGroupedContractOp();
}

/// The plan of `plan`, with zeros for each slot: the new op.
static MoePlanOp addProgress(MoePlanOp plan) {
  OpBuilder b(plan);
  Value perm = plan.getPerm(), zeros = b.clone(*perm.getDefiningOp())->getResult(0);
  auto counted =
      MoePlanOp::create(b, plan.getLoc(), {zeros.getType(), plan.getOffsets().getType(), perm.getType()},
                        plan.getIds(), zeros, plan.getOffsets(), perm, plan.getKernelConfigAttr());
  plan->replaceAllUsesWith(counted->getResults().drop_front());
  plan.erase();
  return counted;
}

void FuseExpertsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (getPhase(function) != Phase::decode)
    return;
  SmallVector<MoeGroupedContractOp> contractions;
  function.walk([&](MoeGroupedContractOp op) { contractions.push_back(op); });
  for (MoeGroupedContractOp down : contractions) {
    MoeGroupedContractOp gated = getGated(down);
    auto plan = down.getOffsets().getDefiningOp<MoePlanOp>();
    // The counters are used up by one op.
    if (!gated || !plan || plan.getProgress() || !plan.getPerm().getDefiningOp<tensor::EmptyOp>())
      continue;
    auto opts = remark::RemarkOpts::name("ExpertMlp").category("k3-fuse-experts").function(function.getName());
    Value progress = addProgress(plan).getResult(0);
    OpBuilder b(down);
    auto fused = MoeExpertMlpOp::create(
        b, down.getLoc(), {gated.getResult(0).getType(), down.getResult(0).getType(), progress.getType()}, gated.getX(),
        gated.getOffsets(), gated.getPerm(), gated.getWeight(), gated.getScale(), gated.getUpWeight(),
        gated.getUpScale(), down.getWeight(), down.getScale(), gated.getOut(), down.getOut(), progress,
        gated.getActivationAttr(), gated.getBetaAttr(), gated.getLinearBetaAttr(), /*kernel_config=*/KernelConfigAttr(),
        gated.getBf16XAttr());
    down.getResult(0).replaceAllUsesWith(fused.getResult(1));
    down.erase();
    gated.getResult(0).replaceAllUsesWith(fused.getResult(0));
    gated.erase();
    remark::passed(fused.getLoc(), opts) << "gated unit and down projection are one op";
  }
}
