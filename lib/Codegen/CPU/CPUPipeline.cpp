//===- CPUPipeline.cpp - order of the CPU code generation passes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/CPU/Passes.h"
#include "lib/Codegen/Common/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::k3;

void k3::buildConfigurePipeline(OpPassManager &pm, bool forceGeneric) {
  K3ConfigureKernelsOptions options;
  options.forceGeneric = forceGeneric;
  pm.addNestedPass<func::FuncOp>(createK3ConfigureKernels(options));
}

void k3::buildKernelsPipeline(OpPassManager &pm) {
  OpPassManager &func = pm.nest<func::FuncOp>();
  auto simplify = [](OpPassManager &on) {
    on.addPass(createCanonicalizerPass());
    on.addPass(createCSEPass());
  };
  // Tensors.
  func.addPass(createK3TileToGrid());
  simplify(func);
  // Decompositions copy where they need a temporary; canonicalization would take such copies for identities.
  func.addPass(createK3Decompose());
  func.addPass(createCSEPass());
  // Memrefs. Copies of a buffer to itself vanish when they are simplified.
  func.addPass(createK3BufferizeKernels());
  simplify(func);
  // Loops and vectors.
  func.addPass(createK3ConvertToVector());
  func.addPass(createK3PlaceTemporaries());
  func.addPass(createK3GridToWorkgroups());
  func.addPass(createK3RelaxReductions());
  func.addPass(createConvertLinalgToLoopsPass());
  func.addPass(createForallToForLoopPass());
  simplify(func);
  func.addPass(createConvertVectorToSCFPass());
  func.addPass(createK3ExpandMath());
  // LLVM.
  pm.addPass(createK3EmitEntryPoints());
  OpPassManager &lowered = pm.nest<func::FuncOp>();
  lowered.addPass(memref::createExpandStridedMetadataPass());
  lowered.addPass(createLowerAffinePass());
  simplify(lowered);
  lowered.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  vectorOptions.x86Vector = true;
  pm.addPass(createConvertVectorToLLVMPass(vectorOptions));
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions funcOptions;
  funcOptions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(funcOptions));
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  simplify(pm);
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void k3::registerCPUCodegen() { registerK3CodegenCPUPasses(); }
