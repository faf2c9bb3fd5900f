//===- ConvertToVector.cpp - hot structured ops to vector code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/Emitters.h"
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/CPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3CONVERTTOVECTOR
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Emitters unroll and mask by the contraction size, which weights fix.
static bool isStatic(Operation *op, StringRef dim) { return !ShapedType::isDynamic(getStaticNamedDim(op, dim)); }

/// Products add up in their destination.
static bool hasF32Result(Operation *op) {
  return getElementTypeOrSelf(cast<DestinationStyleOpInterface>(op).getDpsInits()[0].getType()).isF32();
}

bool k3::hasEmitter(Operation *op) {
  if (isa<LinearOp, MxContractOp>(op))
    return isStatic(op, "k") && hasF32Result(op);
  if (isa<MoeGroupedContractOp>(op))
    return isStatic(op, "kx") && hasF32Result(op);
  if (isa<KdaRecurrentStepOp, KdaScanOp>(op))
    return isStatic(op, "K") && isStatic(op, "V");
  if (isa<KdaShortConvOp>(op))
    return isStatic(op, "C") && isStatic(op, "taps");
  // Gates are made by an op of their own on a CPU.
  if (auto prepare = dyn_cast<KdaChunkPrepareOp>(op); prepare && prepare.getGate())
    return false;
  if (isa<KdaChunkPrepareOp, KdaChunkScanOp>(op))
    return isStatic(op, "K") && isStatic(op, "V") && isStatic(op, "L");
  if (isa<AttnResMixOp>(op))
    return isStatic(op, "R") && isStatic(op, "d") && hasF32Result(op);
  if (isa<MlaAttendOp>(op))
    return isStatic(op, "lr") && isStatic(op, "l") && isStatic(op, "page");
  if (isa<MlaAbsorbOp>(op))
    return isStatic(op, "qd") && isStatic(op, "l") && hasF32Result(op);
  if (isa<MlaExpandOp>(op))
    return isStatic(op, "l") && hasF32Result(op);
  return false;
}

void k3::populateEmitters(RewritePatternSet &patterns, const TargetModel &target) {
  populateLinearEmitter(patterns, target);
  populateMxContractEmitter(patterns, target);
  populateLatentMoeEmitters(patterns, target);
  populateKdaEmitters(patterns, target);
  populateShortConvEmitter(patterns, target);
  populateAttnResEmitter(patterns, target);
  populateMlaEmitters(patterns, target);
  populateMlaProductEmitters(patterns, target);
}

namespace {
struct ConvertToVector : k3::impl::K3ConvertToVectorBase<ConvertToVector> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isKernel(func))
      return;
    FailureOr<TargetModel> target = getTargetModel(func);
    if (failed(target))
      return signalPassFailure();
    RewritePatternSet patterns(&getContext());
    populateEmitters(patterns, *target);
    walkAndApplyPatterns(func, std::move(patterns));
    func.walk([&](StructuredOpInterface op) {
      op->emitOpError("no emitter for this op; its strategy must be 'generic'");
      signalPassFailure();
    });
  }
};
} // namespace
