//===- EmitBinaries.cpp - modules of kernels become executables -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Codegen/Artifact/Passes.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Transforms/Program/Dispatches.h"
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

/// Machine code of a module for an x86-64 CPU.
static FailureOr<SmallVector<char>> compileForCpu(ModuleOp code, ArrayRef<ExecKernelOp> kernels,
                                                  ArrayRef<StringRef> names) {
  FailureOr<TargetModel> target = getTargetModel(code);
  if (failed(target))
    return failure();
  FailureOr<SmallVector<char>> elf = emitElf(code, *target, names);
  OpBuilder b(code);
  for (ExecKernelOp kernel : kernels)
    kernel.setScratchBytesAttr(b.getI64IntegerAttr(getScratchBytes(code, kernel.getSymName())));
  return elf;
}

/// Machine code of a module for a GPU. Kernels learn what ptxas reports of them.
static FailureOr<SmallVector<char>> compileForGpu(ModuleOp code, ArrayRef<ExecKernelOp> kernels,
                                                  ArrayRef<StringRef> names) {
  FailureOr<GpuTarget> target = getGpuTarget(code);
  if (failed(target))
    return failure();
  for (ExecKernelOp kernel : kernels)
    if (!kernel.getLaunch())
      return kernel.emitOpError("expected a launch, as every kernel of a GPU has");
  FailureOr<Cubin> cubin = emitCubin(code, *target, names);
  if (failed(cubin))
    return failure();
  for (auto [index, resources] : llvm::enumerate(cubin->resources)) {
    ExecKernelOp kernel = kernels[index];
    LaunchAttr launch = *kernel.getLaunch();
    kernel.setLaunchAttr(LaunchAttr::get(code.getContext(), launch.getThreads(),
                                         getSharedBytes(code, kernel.getSymName()), launch.getCluster(),
                                         launch.getTensorMaps(), resources.registers, resources.staticSharedBytes,
                                         resources.spillBytes, resources.stackBytes));
    if (startsEarly(code, kernel.getSymName()))
      kernel->setAttr(kStartsEarlyAttr, UnitAttr::get(code.getContext()));
    if (isResident(code, kernel.getSymName()))
      kernel->setAttr(kResidentAttr, UnitAttr::get(code.getContext()));
  }
  return std::move(cubin->bytes);
}

static LogicalResult emitExecutable(ModuleOp module, ModuleOp code) {
  FailureOr<SmallVector<ExecKernelOp>> kernels = getKernelsByOrdinal(module, code);
  if (failed(kernels))
    return failure();
  SmallVector<StringRef> names;
  for (ExecKernelOp kernel : *kernels)
    names.push_back(kernel.getSymName());
  FailureOr<SmallVector<char>> bytes =
      isForGpu(code) ? compileForGpu(code, *kernels, names) : compileForCpu(code, *kernels, names);
  if (failed(bytes))
    return failure();
  OpBuilder b(code);
  auto type = RankedTensorType::get({static_cast<int64_t>(bytes->size())}, b.getI8Type());
  auto blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(*bytes), /*align=*/8);
  auto elf = DenseResourceElementsAttr::get(type, *code.getName(), std::move(blob));
  ExecExecutableOp::create(b, code.getLoc(), *code.getName(), code->getAttrOfType<TargetAttr>(targetAttrName), elf);
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
