//===- ExpandMath.cpp - math functions and bf16 to arithmetic -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/CPU/MathBuilder.h"
#include "lib/Codegen/CPU/Passes.h"
#include "lib/Codegen/Common/TargetModel.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3EXPANDMATH
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// `OpTy` on f32 values becomes what a method of MathBuilder emits.
template <typename OpTy> struct ExpandWithBuilder : OpRewritePattern<OpTy> {
  using Method = Value (MathBuilder::*)(Value) const;
  ExpandWithBuilder(MLIRContext *context, Method method, bool fma)
      : OpRewritePattern<OpTy>(context, /*benefit=*/2), method(method), fma(fma) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32())
      return failure();
    MathBuilder builder(rewriter, op.getLoc(), type, fma);
    rewriter.replaceOp(op, (builder.*method)(op.getOperand()));
    return success();
  }
  Method method;
  bool fma;
};

/// Without FMA instructions math.fma would become a call of fmaf.
struct SplitFma : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    Value product = arith::MulFOp::create(rewriter, op.getLoc(), op.getA(), op.getB());
    rewriter.replaceOpWithNewOp<arith::AddFOp>(op, product, op.getC());
    return success();
  }
};

/// Narrowing to bf16 in vectors of the target's width is an instruction on some targets; everything else is expanded.
bool isNative(arith::TruncFOp op, const TargetModel &target) {
  auto type = dyn_cast<VectorType>(op.getType());
  return target.avx512Bf16 && type && type.getNumElements() == target.lanes;
}

struct ExpandMath : k3::impl::K3ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isKernel(func))
      return;
    FailureOr<TargetModel> target = getTargetModel(func);
    if (failed(target))
      return signalPassFailure();
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<ExpandWithBuilder<math::ExpOp>>(context, &MathBuilder::exp, target->fma);
    patterns.add<ExpandWithBuilder<math::TanhOp>>(context, &MathBuilder::tanh, target->fma);
    patterns.add<ExpandWithBuilder<math::RsqrtOp>>(context, &MathBuilder::rsqrt, target->fma);
    if (!target->fma)
      patterns.add<SplitFma>(context);
    auto isLeft = [](StringRef name) { return name == "math.log" || name == "math.log1p" || name == "math.expm1"; };
    populateMathPolynomialApproximationPatterns(patterns, isLeft);
    if (failed(applyPatternsGreedily(func, std::move(patterns))))
      return signalPassFailure();

    SmallVector<Operation *> conversions;
    func.walk([&](Operation *op) {
      if (isa<arith::ExtFOp>(op) || (isa<arith::TruncFOp>(op) && !isNative(cast<arith::TruncFOp>(op), *target)))
        conversions.push_back(op);
    });
    RewritePatternSet bfloat(context);
    arith::populateExpandBFloat16Patterns(bfloat);
    GreedyRewriteConfig onlyThese;
    onlyThese.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    if (failed(applyOpPatternsGreedily(conversions, std::move(bfloat), onlyThese)))
      signalPassFailure();
  }
};

} // namespace
