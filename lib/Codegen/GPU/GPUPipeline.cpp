//===- GPUPipeline.cpp - order of the GPU code generation passes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Codegen/Common/Passes.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::k3;

void k3::buildGpuConfigurePipeline(OpPassManager &pm, bool forceGeneric) {
  K3GpuConfigureKernelsOptions options;
  options.forceGeneric = forceGeneric;
  pm.addNestedPass<func::FuncOp>(createK3GpuConfigureKernels(options));
}

void k3::buildGpuKernelsPipeline(OpPassManager &pm) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  auto simplify = [](OpPassManager &on) {
    on.addPass(createCanonicalizerPass());
    on.addPass(createCSEPass());
  };
  func.addPass(createK3GpuRecordLaunch());
  // Tensors; emitters take their ops whole.
  func.addPass(createK3TileToGrid());
  simplify(func);
  // Decompositions copy where they need a temporary; canonicalization would take such copies for identities.
  func.addPass(createK3Decompose());
  func.addPass(createCSEPass());
  // Memrefs. Copies of a buffer to itself vanish when they are simplified.
  func.addPass(createK3BufferizeKernels());
  simplify(func);
  func.addPass(createK3GpuBindExperts());
  func.addPass(createK3GpuPlaceTemporaries());
  // Threads.
  func.addPass(createK3GpuEmitKernels());
  func.addPass(createK3GpuDistributeToThreads());
  simplify(func);
  func.addPass(createK3GpuExpandMath());
  // LLVM.
  pm.addPass(createK3GpuEmitEntryPoints());
  OpPassManager &lowered = pm.nest<func::FuncOp>();
  lowered.addPass(memref::createExpandStridedMetadataPass());
  lowered.addPass(createLowerAffinePass());
  simplify(lowered);
  lowered.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions funcOptions;
  funcOptions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(funcOptions));
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertNVVMToLLVMPass());
  simplify(pm);
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createK3GpuFinalizeKernels());
}

void k3::registerGPUCodegen() { registerK3CodegenGPUPasses(); }
