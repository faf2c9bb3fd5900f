//===- Decompose.cpp - structured ops to upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/Common/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3DECOMPOSE
#include "lib/Codegen/Common/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct Decompose : k3::impl::K3DecomposeBase<Decompose> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isKernel(func))
      return;
    // A decomposition may contain structured ops of its own, which take the strategy of the op they come from.
    while (true) {
      SmallVector<StructuredOpInterface> ops;
      func.walk([&](StructuredOpInterface op) {
        KernelConfigAttr config = getKernelConfig(op);
        if (!config || config.getStrategy() == strategyGeneric)
          ops.push_back(op);
      });
      if (ops.empty())
        return;
      for (StructuredOpInterface op : ops)
        if (failed(decompose(op)))
          return signalPassFailure();
    }
  }

  static LogicalResult decompose(Operation *op) {
    auto aggregated = dyn_cast<linalg::AggregatedOpInterface>(op);
    if (!aggregated)
      return op->emitOpError("has neither an emitter nor a decomposition");
    IRRewriter rewriter(op->getContext());
    rewriter.setInsertionPoint(op);
    FailureOr<SmallVector<Value>> values = aggregated.decomposeOperation(rewriter);
    if (failed(values))
      return op->emitOpError("could not be decomposed");
    rewriter.replaceOp(op, *values);
    return success();
  }
};
} // namespace
