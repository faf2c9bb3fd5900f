//===- AttnResOps.cpp - constraints of the AttnRes ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult AttnResMixOp::verifyConstraints() {
  Operation *op = getOperation();
  if (failed(verifyNamedDim(op, "one", "rows of proj_weight", 1)) || failed(verifyEps(op, "eps", getEps())))
    return failure();
  if (static_cast<bool>(getOutWeight()) != getOutEps().has_value())
    return emitOpError() << "expected 'out_weight' and 'out_eps' together, got '"
                         << (getOutWeight() ? "out_weight" : "out_eps") << "' only";
  return getOutEps() ? verifyEps(op, "out_eps", *getOutEps()) : success();
}

namespace {
/// A mix of one source is the source: its weight is 1. What remains is the norm, if any.
struct MixOfOneSource final : OpRewritePattern<AttnResMixOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AttnResMixOp op, PatternRewriter &rewriter) const override {
    auto streamType = dyn_cast<RankedTensorType>(op.getStream().getType());
    if (!streamType || !matchPattern(op.getSources(), m_One()))
      return rewriter.notifyMatchFailure(op, "expected one source and tensors");
    auto outType = cast<RankedTensorType>(op.getOut().getType());
    if (!op.getOutWeight() && outType.getElementType() != streamType.getElementType())
      return rewriter.notifyMatchFailure(op, "expected the mix to keep the element type");

    Location loc = op.getLoc();
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, op.getStream());
    sizes[0] = rewriter.getIndexAttr(1);
    SmallVector<OpFoldResult> offsets(3, rewriter.getIndexAttr(0)), strides(3, rewriter.getIndexAttr(1));
    auto sliceType = RankedTensorType::get(streamType.getShape().drop_front(), streamType.getElementType());
    Value source = tensor::ExtractSliceOp::create(rewriter, loc, sliceType, op.getStream(), offsets, sizes, strides);
    if (op.getOutWeight())
      rewriter.replaceOpWithNewOp<RmsNormOp>(op, outType, source, op.getOutWeight(), op.getOut(), *op.getOutEps(),
                                             op.getKernelConfigAttr());
    else
      rewriter.replaceOp(op, tensor::CastOp::create(rewriter, loc, outType, source).getResult());
    return success();
  }
};
} // namespace

void AttnResMixOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<MixOfOneSource>(context);
}

// (C1) is about run-time values.
LogicalResult AttnResAccumulateOp::verifyConstraints() { return success(); }
