//===- EmitBinaries.cpp - modules of kernels become executables -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/Artifact/Passes.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_EMITBINARIES
#include "lib/Codegen/Artifact/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// Kernels in `executable`, by ordinal; an error unless the ordinals are 0, 1, ...
static FailureOr<SmallVector<ExecKernelOp>> getKernelsByOrdinal(ModuleOp module, ModuleOp executable) {
  SmallVector<ExecKernelOp> kernels;
  for (auto kernel : module.getOps<ExecKernelOp>())
    if (kernel.getExecutable() == *executable.getName())
      kernels.push_back(kernel);
  llvm::sort(kernels, [](ExecKernelOp lhs, ExecKernelOp rhs) { return lhs.getOrdinal() < rhs.getOrdinal(); });
  for (auto [index, kernel] : llvm::enumerate(kernels))
    if (kernel.getOrdinal() != index)
      return kernel.emitOpError() << "expected ordinals without gaps, got " << kernel.getOrdinal() << " after " << index
                                  << " kernels",
             failure();
  return kernels;
}

static LogicalResult emitExecutable(ModuleOp module, ModuleOp code) {
  FailureOr<SmallVector<ExecKernelOp>> kernels = getKernelsByOrdinal(module, code);
  if (failed(kernels))
    return failure();
  FailureOr<TargetModel> target = getTargetModel(code);
  if (failed(target))
    return failure();
  SmallVector<StringRef> names;
  for (ExecKernelOp kernel : *kernels)
    names.push_back(kernel.getSymName());
  FailureOr<SmallVector<char>> elf = emitElf(code, *target, names);
  if (failed(elf))
    return failure();
  OpBuilder b(code);
  for (ExecKernelOp kernel : *kernels)
    kernel.setScratchBytesAttr(b.getI64IntegerAttr(getScratchBytes(code, kernel.getSymName())));
  auto type = RankedTensorType::get({static_cast<int64_t>(elf->size())}, b.getI8Type());
  auto blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(*elf), /*align=*/8);
  auto bytes = DenseResourceElementsAttr::get(type, *code.getName(), std::move(blob));
  ExecExecutableOp::create(b, code.getLoc(), *code.getName(), target->toAttr(module.getContext()), bytes);
  code.erase();
  return success();
}

namespace {
struct EmitBinariesPass : k3::impl::EmitBinariesBase<EmitBinariesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto code : llvm::make_early_inc_range(module.getOps<ModuleOp>()))
      if (code.getName() && failed(emitExecutable(module, code)))
        return signalPassFailure();
  }
};
} // namespace
