//===- BindExperts.cpp - slices of expert groups behind a table of pointers -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GenericKernels.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUBINDEXPERTS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// A slice of one expert of `table` reads through the table.
static LogicalResult bindSlice(const GpuBuilder &g, BlockArgument table, memref::SubViewOp slice) {
  if (getConstantIntValue(slice.getMixedSizes().front()) != 1)
    return slice.emitOpError("expected a slice of one expert");
  auto type = cast<MemRefType>(table.getType());
  // The expert alone as a group of one, and the same slice of it.
  Value expert = getValueOrCreateConstantIndexOp(g.b, g.loc, slice.getMixedOffsets().front());
  SmallVector<int64_t> shape(type.getShape());
  shape.front() = 1;
  Value group = viewPointer(g, g.expert(table, expert), MemRefType::get(shape, type.getElementType()));
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
  offsets.front() = g.b.getIndexAttr(0);
  // The old type has an offset that depends on the expert.
  auto sliced =
      memref::SubViewOp::inferRankReducedResultType(slice.getType().getShape(), cast<MemRefType>(group.getType()),
                                                    offsets, slice.getMixedSizes(), slice.getMixedStrides());
  Value view = memref::SubViewOp::create(g.b, g.loc, cast<MemRefType>(sliced), group, offsets, slice.getMixedSizes(),
                                         slice.getMixedStrides());
  if (view.getType() != slice.getType())
    view = memref::CastOp::create(g.b, g.loc, slice.getType(), view);
  slice.replaceAllUsesWith(view);
  slice.erase();
  return success();
}

namespace {
struct BindExperts : k3::impl::K3GpuBindExpertsBase<BindExperts> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isGenericKernel(func))
      return;
    SmallVector<BlockArgument> tables;
    for (BlockArgument argument : func.getArguments())
      if (func.getArgAttr(argument.getArgNumber(), expertGroupAttrName))
        tables.push_back(argument);
    if (tables.empty())
      return;
    // Slices of slices are slices.
    RewritePatternSet patterns(&getContext());
    memref::populateFoldMemRefAliasOpPatterns(patterns);
    if (failed(applyPatternsGreedily(func, std::move(patterns))))
      return signalPassFailure();
    FailureOr<GpuTarget> target = getGpuTarget(func);
    if (failed(target))
      return signalPassFailure();
    for (BlockArgument table : tables)
      for (Operation *user : llvm::make_early_inc_range(table.getUsers())) {
        auto slice = dyn_cast<memref::SubViewOp>(user);
        if (!slice) {
          if (isa<memref::DimOp>(user))
            continue;
          user->emitOpError("reads an expert group other than by experts, and it is bound as a table of pointers");
          return signalPassFailure();
        }
        OpBuilder b(slice);
        if (failed(bindSlice(GpuBuilder(b, slice.getLoc(), *target, getGenericConfig(func)), table, slice)))
          return signalPassFailure();
      }
  }
};
} // namespace
