//===- EmitEntryPoints.cpp - GPU kernels in the runtime's calling convention -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/BareArguments.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Passes.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUEMITENTRYPOINTS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Enough for the swizzled tiles of tensor maps.
static constexpr int64_t sharedAlignment = 1024;

/// The symbol that stands for dynamic shared memory.
static LLVM::GlobalOp createSharedSymbol(ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
  return LLVM::GlobalOp::create(b, module.getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External,
                                sharedSymbolName, Attribute(), sharedAlignment, GpuBuilder::sharedSpace);
}

namespace {
struct EmitEntryPoints : k3::impl::K3GpuEmitEntryPointsBase<EmitEntryPoints> {
  void runOnOperation() override {
    LLVM::GlobalOp shared;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (!isKernel(func))
        continue;
      if (!func->hasAttr(startsEarlyAttrName)) {
        OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
        GpuBuilder::waitForPrevious(b, func);
      }
      if (failed(makeArgumentsBare(func, {sharedMemoryAttrName, tensorMapAttrName})))
        return signalPassFailure();
      for (BlockArgument argument : func.getArguments()) {
        if (!func.getArgAttr(argument.getArgNumber(), sharedMemoryAttrName))
          continue;
        if (!shared)
          shared = createSharedSymbol(getOperation());
        OpBuilder b = OpBuilder::atBlockBegin(&func.getBody().front());
        argument.replaceAllUsesWith(LLVM::AddressOfOp::create(b, func.getLoc(), shared));
        if (failed(func.eraseArgument(argument.getArgNumber())))
          return signalPassFailure();
        break;
      }
      func.setPublic();
    }
  }
};
} // namespace
