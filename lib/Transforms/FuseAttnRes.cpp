//===- FuseAttnRes.cpp - fold the norm after a residual mix into the mix -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FUSEATTNRES
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct FuseAttnResPass : k3::impl::FuseAttnResBase<FuseAttnResPass> {
  void runOnOperation() override;
};
} // namespace

/// gather_rows(mix) then norm -> mix, norm, gather_rows: both work row by row.
static RmsNormOp moveGatherBehindNorm(GatherRowsOp gather, RmsNormOp norm) {
  OpBuilder b(gather);
  Location loc = norm.getLoc();
  Value table = gather.getTable();
  auto type = cast<RankedTensorType>(table.getType());
  Value destination =
      createEmpty(b, loc, {getRows(b, loc, table), b.getIndexAttr(type.getDimSize(1))}, b.getF32Type());
  auto early = RmsNormOp::create(b, loc, destination.getType(), table, norm.getWeight(), destination,
                                 norm.getEpsAttr(), norm.getKernelConfigAttr());
  b.setInsertionPoint(norm);
  auto late = GatherRowsOp::create(b, gather.getLoc(), norm.getResult(0).getType(), gather.getIds(),
                                   early.getResult(0), norm.getOut(), gather.getKernelConfigAttr());
  norm.getResult(0).replaceAllUsesWith(late.getResult(0));
  norm.erase();
  gather.erase();
  return early;
}

void FuseAttnResPass::runOnOperation() {
  SmallVector<RmsNormOp> norms;
  getOperation().walk([&](RmsNormOp norm) { norms.push_back(norm); });
  auto remarkName = remark::RemarkOpts::name("NormInMix").category("k3-fuse-attn-res");
  StringRef functionName = getOperation().getName();
  for (RmsNormOp norm : norms) {
    if (auto gather = norm.getX().getDefiningOp<GatherRowsOp>())
      if (gather.getTable().getDefiningOp<AttnResMixOp>() && gather->hasOneUse())
        norm = moveGatherBehindNorm(gather, norm);
    auto mix = norm.getX().getDefiningOp<AttnResMixOp>();
    if (!mix)
      continue;
    if (mix.getOutWeight() || !mix->hasOneUse()) {
      remark::missed(norm.getLoc(), remarkName.function(functionName))
          << remark::reason("the mix is {0}", mix.getOutWeight() ? "normed already" : "also used without the norm");
      continue;
    }
    OpBuilder b(norm);
    auto fused = AttnResMixOp::create(b, mix.getLoc(), norm.getResult(0).getType(), mix.getStream(), mix.getSources(),
                                      mix.getNormWeight(), mix.getProjWeight(), norm.getWeight(), norm.getOut(),
                                      mix.getEpsAttr(), norm.getEpsAttr(), mix.getKernelConfigAttr());
    norm.getResult(0).replaceAllUsesWith(fused.getResult(0));
    norm.erase();
    mix.erase();
    remark::passed(fused.getLoc(), remarkName.function(functionName)) << "norm folded into the mix";
  }
  eraseDeadOps(getOperation());
}
