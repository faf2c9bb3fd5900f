//===- LowerKdaDecode.cpp - the KDA scan of a decode is one step -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_LOWERKDADECODE
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct LowerKdaDecodePass : k3::impl::LowerKdaDecodeBase<LowerKdaDecodePass> {
  void runOnOperation() override;
};
} // namespace

void LowerKdaDecodePass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (getPhase(function) != Phase::decode)
    return;
  function.walk([&](KdaScanOp scan) {
    if (scan.getFixedOrder())
      return;
    OpBuilder b(scan);
    auto step = KdaRecurrentStepOp::create(b, scan.getLoc(), scan.getResultTypes(), scan.getQ(), scan.getK(),
                                           scan.getV(), scan.getBeta(), scan.getSlots(), scan.getG(), scan.getOut(),
                                           scan.getState(), scan.getScaleAttr(), scan.getL2normAttr(),
                                           scan.getDeltaAttr(), scan.getKernelConfigAttr());
    remark::passed(scan.getLoc(), remark::RemarkOpts::name("RecurrentStep")
                                      .category("k3-lower-kda-decode")
                                      .function(function.getName()))
        << "one row per sequence";
    scan->replaceAllUsesWith(step.getResults());
    scan.erase();
  });
}
