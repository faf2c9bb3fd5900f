//===- EmitCubin.cpp - kernels in the LLVM dialect to a cubin -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::k3;

int64_t k3::getSharedBytes(ModuleOp kernels, StringRef kernel) {
  Operation *func = kernels.lookupSymbol(kernel);
  auto bytes = func ? func->getAttrOfType<IntegerAttr>(sharedBytesAttrName) : IntegerAttr();
  return bytes ? bytes.getInt() : 0;
}

bool k3::startsEarly(ModuleOp kernels, StringRef kernel) {
  Operation *func = kernels.lookupSymbol(kernel);
  return func && func->hasAttr(startsEarlyAttrName);
}

bool k3::isResident(ModuleOp kernels, StringRef kernel) {
  Operation *func = kernels.lookupSymbol(kernel);
  return func && func->hasAttr(residentAttrName);
}

/// An emitter's kernel keeps its registers and its tensor cores busy, or it does not compile. Nobody can be asked to
/// look at a generic one.
static LogicalResult checkResources(ModuleOp kernels, StringRef name, const KernelResources &resources) {
  Operation *kernel = kernels.lookupSymbol(name);
  auto strategy = kernel->getAttrOfType<StringAttr>(strategyAttrName);
  if (!strategy || strategy == strategyGeneric)
    return success();
  if (resources.spillBytes > 0)
    return kernel->emitError() << "kernel '" << name << "' of strategy " << strategy
                               << " spills registers: " << resources.spillBytes << " bytes stored and loaded, "
                               << resources.registers << " registers";
  if (!resources.notes.empty())
    return kernel->emitError() << "kernel '" << name << "' of strategy " << strategy
                               << " loses speed: " << resources.notes.front();
  return success();
}

FailureOr<Cubin> k3::emitCubin(ModuleOp kernels, const GpuTarget &target, ArrayRef<StringRef> kernelsInOrder) {
  FailureOr<std::string> ptx = emitPtx(kernels, target, kernelsInOrder);
  if (failed(ptx))
    return failure();
  llvm::Expected<Assembled> assembled = assemblePtx(*ptx, target.chip);
  if (!assembled)
    return kernels.emitError() << llvm::toString(assembled.takeError());
  Cubin cubin;
  cubin.bytes = std::move(assembled->cubin);
  for (StringRef name : kernelsInOrder) {
    auto found = assembled->kernels.find(name);
    if (found == assembled->kernels.end())
      return kernels.emitError() << "ptxas reports nothing of kernel '" << name << "'";
    cubin.resources.push_back(found->second);
    if (failed(checkResources(kernels, name, found->second)))
      return failure();
  }
  // Notes without a name may be of any kernel.
  if (auto nameless = assembled->kernels.find(""); nameless != assembled->kernels.end())
    return kernels.emitError() << "kernels lose speed: " << nameless->second.notes.front();
  return cubin;
}
