//===- DecomposeStructured.cpp - structured ops on tensors to upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_DECOMPOSESTRUCTURED
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct DecomposeStructuredPass final : k3::impl::DecomposeStructuredBase<DecomposeStructuredPass> {
  using Base::Base;

  void runOnOperation() override {
    for (const std::string &name : ops)
      if (!RegisteredOperationName::lookup(name, &getContext())) {
        getOperation()->emitError() << "expected names of structured ops in 'ops', got '" << name << "'";
        return signalPassFailure();
      }
    SmallVector<Operation *> found;
    getOperation()->walk([&](StructuredOpInterface op) {
      StringRef name = op->getName().getStringRef();
      if (op->getNumResults() && (ops.empty() || llvm::is_contained(ops, name)))
        found.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (Operation *op : found) {
      rewriter.setInsertionPoint(op);
      FailureOr<SmallVector<Value>> values = cast<linalg::AggregatedOpInterface>(op).decomposeOperation(rewriter);
      if (failed(values))
        return signalPassFailure();
      rewriter.replaceOp(op, *values);
    }
  }
};
} // namespace
