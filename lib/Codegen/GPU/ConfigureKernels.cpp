//===- ConfigureKernels.cpp - strategy, grid and launch of every kernel -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/ModelAttrs.h"
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUCONFIGUREKERNELS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

static KernelConfigAttr toConfig(Operation *root, const GpuLaunch &launch) {
  MLIRContext *context = root->getContext();
  SmallVector<GridDimAttr> grid;
  for (const GridDim &dim : launch.grid)
    grid.push_back(GridDimAttr::get(context, StringAttr::get(context, dim.dim), dim.tile));
  if (grid.empty())
    grid.push_back(GridDimAttr::get(context, StringAttr::get(context, ""), 1));
  SmallVector<TensorMapAttr> maps;
  for (const TensorMapSpec &map : launch.tensorMaps)
    maps.push_back(TensorMapAttr::get(context, map.binding, map.box, map.swizzle));
  SmallVector<int64_t> tiles(getLoopNames(root).size(), 0);
  if (failed(KernelConfigAttr::verify([&] { return root->emitOpError(); }, tiles, launch.strategy, grid, launch.threads,
                                      launch.sharedBytes, launch.cluster, maps)))
    return {};
  return KernelConfigAttr::get(context, tiles, launch.strategy, grid, launch.threads, launch.sharedBytes,
                               launch.cluster, maps);
}

/// What no emitter and no text may ask for.
static LogicalResult verifyConfig(Operation *root, KernelConfigAttr config, const GpuTarget &target) {
  size_t loops = getLoopNames(root).size();
  if (config.getTiles().size() != loops)
    return root->emitOpError() << "expected " << loops << " tile sizes, got " << config.getTiles().size();
  if (config.getThreads() == 0)
    return root->emitOpError("expected threads in the config of a GPU's kernel");
  if (config.getSharedBytes() > target.sharedBytesPerBlock)
    return root->emitOpError() << "expected at most " << target.sharedBytesPerBlock << " bytes of shared memory, got "
                               << config.getSharedBytes();
  bool isGeneric = config.getStrategy() == strategyGeneric;
  if (!isGeneric && !getGpuEmitter(root))
    return root->emitOpError() << "has no GPU emitter, so that its strategy must be '" << strategyGeneric << "', got '"
                               << config.getStrategy() << "'";
  return success();
}

/// Threads of a block that runs a decomposed op.
static constexpr int64_t genericThreads = 256;

/// One tile size per parallel loop: enough for all threads of a block where that needs no large temporaries.
static SmallVector<int64_t> chooseGenericTiles(Operation *root) {
  return llvm::TypeSwitch<Operation *, SmallVector<int64_t>>(root)
      .Case<LinearOp>([](auto) { return SmallVector<int64_t>{8, 64}; })
      .Case<MxContractOp>([](auto) { return SmallVector<int64_t>{1, genericThreads}; })
      .Case<GluOp, SigmoidGateOp, MoeCombineOp>([](auto) { return SmallVector<int64_t>{1, 4 * genericThreads}; })
      .Case<KdaShortConvOp>([](auto) { return SmallVector<int64_t>{genericThreads}; })
      .Case<MoeGroupedContractOp>([](auto) { return SmallVector<int64_t>{genericThreads / 2}; })
      .Case<KdaGateOp, KdaGatedNormOp>([](auto) { return SmallVector<int64_t>{1, 8}; })
      .Case<MlaAbsorbOp, MlaExpandOp>([](auto) { return SmallVector<int64_t>{4, 1}; })
      .Default([](Operation *op) { return SmallVector<int64_t>(getLoopNames(op).size(), 1); });
}

static KernelConfigAttr getGenericConfig(Operation *root) {
  SmallVector<int64_t> tiles = chooseGenericTiles(root);
  // A tile that covers a whole static loop is no tile.
  for (auto [tile, loop] : llvm::zip_equal(tiles, getLoopNames(root)))
    if (int64_t size = getStaticNamedDim(root, loop); !ShapedType::isDynamic(size) && tile >= size)
      tile = 0;
  return KernelConfigAttr::get(root->getContext(), tiles, strategyGeneric, ArrayRef<GridDimAttr>(), genericThreads,
                               /*sharedBytes=*/0, /*cluster=*/1, ArrayRef<TensorMapAttr>());
}

namespace {
struct ConfigureKernels : k3::impl::K3GpuConfigureKernelsBase<ConfigureKernels> {
  using Base::Base;
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(configure(func)))
      signalPassFailure();
  }

  LogicalResult configure(func::FuncOp func) {
    FailureOr<GpuTarget> target = getGpuTarget(func);
    FailureOr<StructuredOpInterface> root = getKernelRoot(func);
    if (failed(target) || failed(root))
      return failure();
    auto phase = dyn_cast_or_null<PhaseAttr>(func->removeDiscardableAttr(kPhaseAttr));
    KernelConfigAttr config = getKernelConfig(*root);
    if (!config) {
      config = choose(*root, phase ? phase.getValue() : Phase::prefill, *target);
      if (!config)
        return failure();
      (*root)->setAttr(kernelConfigAttrName, config);
    }
    return verifyConfig(*root, config, *target);
  }

  KernelConfigAttr choose(Operation *root, Phase phase, const GpuTarget &target) {
    const GpuEmitter *emitter = forceGeneric ? nullptr : getGpuEmitter(root);
    if (emitter)
      if (std::optional<GpuLaunch> launch = emitter->configure(root, phase, target))
        return toConfig(root, *launch);
    return getGenericConfig(root);
  }
};
} // namespace
