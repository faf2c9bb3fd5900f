//===- ReductionPatterns.cpp - how k3-reduce makes k3 IR smaller -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/Interfaces/Interfaces.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Reducer/ReductionPatternInterface.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// A structured op disappears: on tensors its results are its destinations as they were.
struct DropStructuredOp final : OpInterfaceRewritePattern<StructuredOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(StructuredOpInterface op, PatternRewriter &rewriter) const override {
    if (op->getNumResults() == 0)
      rewriter.eraseOp(op);
    else
      rewriter.replaceOp(op, cast<DestinationStyleOpInterface>(*op).getDpsInits());
    return success();
  }
};

/// A sublayer disappears: its output is its input, its states stay as they were.
template <typename OpTy> struct DropSublayer final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, passThrough(op));
    return success();
  }

private:
  static SmallVector<Value> passThrough(KdaAttentionOp op) {
    return {op.getX(), op.getQConvState(), op.getKConvState(), op.getVConvState(), op.getState()};
  }
  static SmallVector<Value> passThrough(MlaAttentionOp op) { return {op.getX(), op.getCache()}; }
  static SmallVector<Value> passThrough(LatentMoeBlockOp op) { return {op.getX()}; }
  static SmallVector<Value> passThrough(MlpOp op) { return {op.getX()}; }
};

struct K3ReductionPatterns final : DialectReductionPatternInterface {
  explicit K3ReductionPatterns(Dialect *dialect) : DialectReductionPatternInterface(dialect) {}

  void populateReductionPatterns(RewritePatternSet &patterns) const override {
    patterns.add<DropStructuredOp, DropSublayer<KdaAttentionOp>, DropSublayer<MlaAttentionOp>,
                 DropSublayer<LatentMoeBlockOp>, DropSublayer<MlpOp>>(patterns.getContext());
  }
};
} // namespace

void k3::registerReductionPatterns(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *, K3Dialect *dialect) { dialect->addInterfaces<K3ReductionPatterns>(); });
}
