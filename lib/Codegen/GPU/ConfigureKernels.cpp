//===- ConfigureKernels.cpp - strategy, grid and launch of every kernel -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/ModelAttrs.h"
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Passes.h"

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
    root->emitOpError("has no GPU emitter for these types");
    return {};
  }
};
} // namespace
