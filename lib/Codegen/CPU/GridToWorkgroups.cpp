//===- GridToWorkgroups.cpp - grid loops to workgroup indices -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/CPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GRIDTOWORKGROUPS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct GridToWorkgroups : k3::impl::K3GridToWorkgroupsBase<GridToWorkgroups> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(convert(func)))
      signalPassFailure();
  }

  static LogicalResult convert(func::FuncOp func) {
    OpBuilder b(func.getContext());
    auto attributes = b.getDictionaryAttr(b.getNamedAttr(workgroupIdAttrName, b.getUnitAttr()));
    SmallVector<Value> ids;
    for (int i = 0; i < 3; ++i) {
      if (failed(func.insertArgument(func.getNumArguments(), b.getIndexType(), attributes, func.getLoc())))
        return failure();
      ids.push_back(func.getArguments().back());
    }
    SmallVector<scf::ForallOp> grids;
    func.walk([&](scf::ForallOp forall) {
      if (forall.getMapping() && llvm::all_of(*forall.getMapping(), llvm::IsaPred<gpu::GPUBlockMappingAttr>))
        grids.push_back(forall);
    });
    if (grids.size() > 1)
      return func.emitOpError() << "expected at most one loop over the grid, got " << grids.size();
    if (grids.empty())
      return success();
    scf::ForallOp grid = grids.front();
    if (grid->getParentOp() != func || grid.getNumResults() != 0)
      return grid.emitOpError("expected the grid's loop on memrefs, outside any other loop");

    IRRewriter rewriter(func.getContext());
    rewriter.setInsertionPoint(grid);
    SmallVector<Value> positions;
    for (auto [mapping, low, step] :
         llvm::zip_equal(*grid.getMapping(), grid.getLowerBound(rewriter), grid.getStep(rewriter))) {
      Value id = ids[cast<gpu::GPUBlockMappingAttr>(mapping).getMappingId()];
      Value position = rewriter.createOrFold<arith::MulIOp>(grid.getLoc(), id, step);
      positions.push_back(rewriter.createOrFold<arith::AddIOp>(grid.getLoc(), position, low));
    }
    rewriter.eraseOp(grid.getTerminator());
    rewriter.inlineBlockBefore(grid.getBody(), grid, positions);
    rewriter.eraseOp(grid);
    return success();
  }
};
} // namespace
