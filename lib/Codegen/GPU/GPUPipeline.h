//===- GPUPipeline.h - from kernels to a cubin -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_GPUPIPELINE_H
#define K3_CODEGEN_GPU_GPUPIPELINE_H

#include "lib/Codegen/Common/GpuTarget.h"
#include "lib/Codegen/GPU/Ptxas.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::k3 {

/// Stage `configure`: every kernel's root gets a #k3.kernel_config with a launch. `forceGeneric`: use no emitter.
void buildGpuConfigurePipeline(OpPassManager &pm, bool forceGeneric = false);

/// Stage `kernels`: configured kernel functions on tensors to the LLVM dialect, in the runtime's calling convention.
/// The module holds kernels only (see extractKernels) and carries its target as `k3.target`.
void buildGpuKernelsPipeline(OpPassManager &pm);

/// The passes of lib/Codegen/GPU, for k3-opt; the pipelines are registered with the other stages (lib/Pipelines).
void registerGPUCodegen();

/// PTX of a module of the `kernels` stage: the named kernels, in order, as one text. Kernels are compiled in parallel
/// on the context's threads. Errors are emitted on the module.
FailureOr<std::string> emitPtx(ModuleOp kernels, const GpuTarget &target, ArrayRef<StringRef> kernelsInOrder);

/// A cubin and what ptxas says of each kernel.
struct Cubin {
  SmallVector<char> bytes;
  /// In the order of the kernels.
  SmallVector<KernelResources> resources;
};

/// Stage `binaries`. Errors are emitted on the module: no ptxas, or what it says; spills and wgmma that had to be
/// serialised in a kernel of an emitter.
FailureOr<Cubin> emitCubin(ModuleOp kernels, const GpuTarget &target, ArrayRef<StringRef> kernelsInOrder);

/// Bytes of dynamic shared memory that a kernel of the `kernels` stage needs.
int64_t getSharedBytes(ModuleOp kernels, StringRef kernel);
/// Whether such a kernel waits for the one in front of it, so that it may be launched before that one has ended.
bool startsEarly(ModuleOp kernels, StringRef kernel);
/// Whether the blocks of such a kernel wait for each other, so that all of them must run at once.
bool isResident(ModuleOp kernels, StringRef kernel);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_GPUPIPELINE_H
