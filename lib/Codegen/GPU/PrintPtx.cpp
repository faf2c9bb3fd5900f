//===- PrintPtx.cpp - the PTX of kernels as text -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUPRINTPTX
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct PrintPtx : k3::impl::K3GpuPrintPtxBase<PrintPtx> {
  using Base::Base;
  void runOnOperation() override {
    for (auto code : getOperation().getOps<ModuleOp>())
      if (isForGpu(code) && failed(print(code)))
        return signalPassFailure();
  }

  LogicalResult print(ModuleOp code) {
    SmallVector<StringRef> names;
    for (auto kernel : code.getOps<LLVM::LLVMFuncOp>())
      if (kernel->hasAttr(kernelAttrName))
        names.push_back(kernel.getName());
    FailureOr<GpuTarget> target = getGpuTarget(code);
    FailureOr<std::string> ptx = failed(target) ? FailureOr<std::string>() : emitPtx(code, *target, names);
    if (failed(ptx))
      return failure();
    llvm::outs() << *ptx;
    if (!assemble)
      return success();
    FailureOr<Cubin> cubin = emitCubin(code, *target, names);
    if (failed(cubin))
      return failure();
    for (auto [name, resources] : llvm::zip_equal(names, cubin->resources))
      llvm::outs() << "// " << name << ": " << resources.registers << " registers, " << resources.spillBytes
                   << " bytes spilled, " << resources.stackBytes << " bytes of stack, " << resources.staticSharedBytes
                   << " bytes of static shared memory\n";
    return success();
  }
};
} // namespace
