//===- EmitKernels.cpp - structured ops become the code of their emitters -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Emitters.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUEMITKERNELS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct EmitKernels : k3::impl::K3GpuEmitKernelsBase<EmitKernels> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(emit(func)))
      signalPassFailure();
  }

  static LogicalResult emit(func::FuncOp func) {
    auto strategy = func->getAttrOfType<StringAttr>(strategyAttrName);
    if (strategy && strategy == strategyGeneric)
      return success();
    FailureOr<GpuTarget> target = getGpuTarget(func);
    FailureOr<StructuredOpInterface> root = getKernelRoot(func);
    if (failed(target) || failed(root))
      return failure();
    KernelConfigAttr config = getKernelConfig(*root);
    const GpuEmitter *emitter = getGpuEmitter(*root);
    if (!config || config.getThreads() == 0 || !emitter)
      return root->emitOpError("expected an emitter and a config for it (run k3-gpu-configure-kernels first)");
    OpBuilder b(*root);
    if (failed(emitter->emit(b, *root, config, *target)))
      return failure();
    (*root)->erase();
    return success();
  }
};
} // namespace
