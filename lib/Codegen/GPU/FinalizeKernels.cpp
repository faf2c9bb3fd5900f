//===- FinalizeKernels.cpp - entry points of PTX -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3GPUFINALIZEKERNELS
#include "lib/Codegen/GPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// A CUtensorMap: 128 bytes, by value.
static constexpr int64_t tensorMapWords = 16, tensorMapAlignment = 64;

namespace {
struct FinalizeKernels : k3::impl::K3GpuFinalizeKernelsBase<FinalizeKernels> {
  void runOnOperation() override {
    OpBuilder b(&getContext());
    for (auto func : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (!func->hasAttr(kernelAttrName))
        continue;
      auto threads = func->getAttrOfType<IntegerAttr>(threadsAttrName);
      if (!threads) {
        func.emitOpError() << "expected '" << threadsAttrName << "'";
        return signalPassFailure();
      }
      func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
      func->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    b.getDenseI32ArrayAttr({static_cast<int32_t>(threads.getInt())}));
      if (auto blocks = func->getAttrOfType<IntegerAttr>(minBlocksAttrName))
        func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(blocks.getInt()));
      for (unsigned i = 0; i < func.getNumArguments(); ++i) {
        if (!func.getArgAttr(i, tensorMapAttrName))
          continue;
        func.removeArgAttr(i, StringAttr::get(&getContext(), tensorMapAttrName));
        auto bytes = LLVM::LLVMArrayType::get(b.getI64Type(), tensorMapWords);
        func.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
        func.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(tensorMapAlignment));
        func.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(), b.getUnitAttr());
      }
    }
  }
};
} // namespace
