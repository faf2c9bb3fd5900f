//===- ExpandMath.cpp - math functions to instructions of the GPU -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GenericKernels.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUEXPANDMATH
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {

/// `OpTy` on f32 becomes what a method of GpuBuilder emits.
template <typename OpTy> struct ExpandWithBuilder : OpRewritePattern<OpTy> {
  using Method = Value (GpuBuilder::*)(Value) const;
  ExpandWithBuilder(MLIRContext *context, const GpuTarget &target, KernelConfigAttr config, Method method)
      : OpRewritePattern<OpTy>(context), target(target), config(config), method(method) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    GpuBuilder g(rewriter, op.getLoc(), target, config);
    rewriter.replaceOp(op, (g.*method)(op.getOperand()));
    return success();
  }
  const GpuTarget &target;
  KernelConfigAttr config;
  Method method;
};

struct ExpandMath : k3::impl::K3GpuExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isGenericKernel(func))
      return;
    FailureOr<GpuTarget> target = getGpuTarget(func);
    if (failed(target))
      return signalPassFailure();
    KernelConfigAttr config = getGenericConfig(func);
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<ExpandWithBuilder<math::ExpOp>>(context, *target, config, &GpuBuilder::exp);
    patterns.add<ExpandWithBuilder<math::Exp2Op>>(context, *target, config, &GpuBuilder::exp2);
    patterns.add<ExpandWithBuilder<math::LogOp>>(context, *target, config, &GpuBuilder::log);
    patterns.add<ExpandWithBuilder<math::Log1pOp>>(context, *target, config, &GpuBuilder::log1p);
    patterns.add<ExpandWithBuilder<math::TanhOp>>(context, *target, config, &GpuBuilder::tanh);
    patterns.add<ExpandWithBuilder<math::RsqrtOp>>(context, *target, config, &GpuBuilder::rsqrt);
    walkAndApplyPatterns(func, std::move(patterns));
  }
};

} // namespace
