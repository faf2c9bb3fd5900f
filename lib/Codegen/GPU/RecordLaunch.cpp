//===- RecordLaunch.cpp - a config's launch on the kernel's function -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Passes.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPURECORDLAUNCH
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct RecordLaunch : k3::impl::K3GpuRecordLaunchBase<RecordLaunch> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (isKernel(func) && failed(record(func)))
      signalPassFailure();
  }

  static LogicalResult record(func::FuncOp func) {
    FailureOr<StructuredOpInterface> root = getKernelRoot(func);
    if (failed(root))
      return failure();
    KernelConfigAttr config = getKernelConfig(*root);
    if (!config || config.getThreads() == 0)
      return root->emitOpError("expected a config with threads (run k3-gpu-configure-kernels first)");
    OpBuilder b(*root);
    func->setAttr(strategyAttrName, b.getStringAttr(config.getStrategy()));
    func->setAttr(threadsAttrName, b.getI64IntegerAttr(config.getThreads()));
    func->setAttr(sharedBytesAttrName, b.getI64IntegerAttr(config.getSharedBytes()));
    return success();
  }
};
} // namespace
