//===- TileToGrid.cpp - tile the root of a kernel to its grid -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/Common/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3TILETOGRID
#include "lib/Codegen/Common/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct TileToGrid : k3::impl::K3TileToGridBase<TileToGrid> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isKernel(func))
      return;
    FailureOr<StructuredOpInterface> root = getKernelRoot(func);
    if (failed(root))
      return signalPassFailure();
    KernelConfigAttr config = getKernelConfig(*root);
    if (!config) {
      root->emitOpError() << "expected a '" << kernelConfigAttrName << "' (run k3-configure-kernels first)";
      return signalPassFailure();
    }
    if (llvm::all_of(config.getTiles(), [](int64_t tile) { return tile == 0; }))
      return; // the whole op is one workgroup

    static constexpr gpu::MappingId ids[] = {gpu::MappingId::DimX, gpu::MappingId::DimY, gpu::MappingId::DimZ};
    SmallVector<Attribute> mapping;
    for (auto [position, tile] : llvm::enumerate(config.getTiles())) {
      if (tile == 0)
        continue;
      if (position >= std::size(ids)) {
        root->emitOpError() << "expected at most 3 parallel loops in a kernel's root";
        return signalPassFailure();
      }
      mapping.push_back(gpu::GPUBlockMappingAttr::get(&getContext(), ids[position]));
    }
    IRRewriter rewriter(&getContext());
    rewriter.setInsertionPoint(*root);
    scf::SCFTilingOptions options;
    options.setLoopType(scf::SCFTilingOptions::LoopType::ForallOp);
    options.setTileSizes(getAsIndexOpFoldResult(&getContext(), config.getTiles()));
    options.setMapping(mapping);
    FailureOr<scf::SCFTilingResult> tiled =
        scf::tileUsingSCF(rewriter, cast<TilingInterface>(root->getOperation()), options);
    if (failed(tiled)) {
      root->emitOpError("could not be tiled to its grid");
      return signalPassFailure();
    }
    rewriter.replaceOp(*root, tiled->replacements);
  }
};
} // namespace
