//===- Emitters.h - patterns that write vector code for structured ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// An emitter is a rewrite pattern on a structured op whose operands are memrefs (one tile of the kernel's grid). To add
// one: write Emit<Family>.cpp with a populate function, declare it here, and list the op in hasEmitter and the function
// in populateEmitters (ConvertToVector.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_EMITTERS_H
#define K3_CODEGEN_CPU_EMITTERS_H

#include "lib/Codegen/Common/TargetModel.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::k3 {

/// Whether an emitter can write the code of `op` (a structured op on tensors or memrefs, before or after tiling).
bool hasEmitter(Operation *op);

/// Has `emit` write the code of an op on memrefs that has an emitter, in place of the op.
template <typename OpTy, void (*emit)(OpBuilder &, const TargetModel &, OpTy)>
struct EmitterPattern : OpRewritePattern<OpTy> {
  EmitterPattern(MLIRContext *context, const TargetModel &target) : OpRewritePattern<OpTy>(context), target(target) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!op.hasPureBufferSemantics() || !hasEmitter(op))
      return rewriter.notifyMatchFailure(op, "expected memrefs and sizes that an emitter takes");
    emit(rewriter, target, op);
    rewriter.eraseOp(op);
    return success();
  }
  TargetModel target;
};

/// The same for an emitter that is a class.
template <typename OpTy, typename Emitter> void emitWith(OpBuilder &b, const TargetModel &target, OpTy op) {
  Emitter(b, target, op).emit();
}
template <typename OpTy, typename Emitter> using EmitterClassPattern = EmitterPattern<OpTy, emitWith<OpTy, Emitter>>;

void populateEmitters(RewritePatternSet &patterns, const TargetModel &target);

void populateLinearEmitter(RewritePatternSet &patterns, const TargetModel &target);
void populateMxContractEmitter(RewritePatternSet &patterns, const TargetModel &target);
void populateLatentMoeEmitters(RewritePatternSet &patterns, const TargetModel &target);
void populateKdaEmitters(RewritePatternSet &patterns, const TargetModel &target);
void populateShortConvEmitter(RewritePatternSet &patterns, const TargetModel &target);
void populateAttnResEmitter(RewritePatternSet &patterns, const TargetModel &target);
void populateMlaEmitters(RewritePatternSet &patterns, const TargetModel &target);
void populateMlaProductEmitters(RewritePatternSet &patterns, const TargetModel &target);

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_EMITTERS_H
