//===- ProgramContracts.cpp - what may exist from dispatch to plan -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Program/ProgramContracts.h"
#include "lib/Transforms/Program/BufferPlan.h"
#include "lib/Transforms/Program/Dispatches.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult k3::verifyConfigured(ModuleOp module) {
  if (failed(verifyDispatches(module)))
    return failure();
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(kKernelAttr))
      continue;
    FailureOr<StructuredOpInterface> root = getRootOp(kernel);
    if (failed(root))
      return failure();
    auto config = dyn_cast_or_null<KernelConfigAttr>(root->getOperation()->getAttr("kernel_config"));
    if (!config)
      return root->emitOpError("expected a kernel_config");
    size_t loops = getLoopNames(*root).size();
    if (config.getTiles().size() != loops)
      return root->emitOpError() << "expected a kernel_config with " << loops << " tiles, got "
                                 << config.getTiles().size();
  }
  return success();
}

/// Programs and kernels, and what `isCode` accepts.
static LogicalResult verifyPrograms(ModuleOp module, StringRef code, function_ref<bool(Operation &)> isCode) {
  for (Operation &op : *module.getBody())
    if (!isa<ExecProgramOp, ExecKernelOp>(op) && !isCode(op))
      return op.emitOpError() << "is not expected: only programs, kernels and " << code;
  return success();
}

LogicalResult k3::verifyLowered(ModuleOp module) {
  if (failed(verifyPrograms(module, "modules with their code", [](Operation &op) { return isa<ModuleOp>(op); })))
    return failure();
  for (auto code : module.getOps<ModuleOp>()) {
    WalkResult result = code.walk([&](Operation *op) {
      if (op == code || isa_and_present<LLVM::LLVMDialect, NVVM::NVVMDialect>(op->getDialect()))
        return WalkResult::advance();
      op->emitOpError("is not expected in the code of kernels: only the LLVM and NVVM dialects");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return failure();
  }
  for (auto kernel : module.getOps<ExecKernelOp>()) {
    auto code = module.lookupSymbol<ModuleOp>(kernel.getExecutableAttr());
    if (code && !code.lookupSymbol<LLVM::LLVMFuncOp>(kernel.getSymName()))
      return kernel.emitOpError() << "expected a function of this name in " << kernel.getExecutableAttr();
  }
  return success();
}

LogicalResult k3::verifyBinaries(ModuleOp module) {
  return verifyPrograms(module, "executables", [](Operation &op) { return isa<ExecExecutableOp>(op); });
}

LogicalResult k3::verifyPlanned(ModuleOp module) {
  if (failed(verifyBinaries(module)))
    return failure();
  for (auto program : module.getOps<ExecProgramOp>())
    if (failed(verifyBufferPlan(program)))
      return failure();
  return success();
}
