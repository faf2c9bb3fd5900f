//===- CPUPipeline.h - from kernels to machine code -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_CPU_CPUPIPELINE_H
#define K3_CODEGEN_CPU_CPUPIPELINE_H

#include "lib/Codegen/Common/TargetModel.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::k3 {

/// Stage `configure`: every kernel's root gets a #k3.kernel_config. `forceGeneric`: use no emitter.
void buildConfigurePipeline(OpPassManager &pm, bool forceGeneric = false);

/// Stage `kernels`: configured kernel functions on tensors to the LLVM dialect, in the runtime's calling convention. The
/// module holds kernels only (see extractKernels) and carries its target as `k3.target`.
void buildKernelsPipeline(OpPassManager &pm);

/// The passes of lib/Codegen/CPU, for k3-opt; the pipelines are registered with the other stages (lib/Pipelines).
void registerCPUCodegen();

/// Bytes of scratch memory per thread that a kernel (a function of the `kernels` stage) needs.
uint64_t getScratchBytes(ModuleOp kernels, StringRef kernel);

/// Stage `binaries`: a shared object that exports K3_EXECUTABLE_SYMBOL with the named kernels by ordinal. `kernels` is a
/// module of the `kernels` stage. Kernels are compiled in parallel on the context's threads. Errors are emitted on the
/// module: an unknown kernel, an undefined symbol, a missing linker (ld.lld-22 is looked for on the PATH).
FailureOr<SmallVector<char>> emitElf(ModuleOp kernels, const TargetModel &target,
                                     ArrayRef<StringRef> kernelsInOrdinalOrder);

/// The same as one relocatable object.
FailureOr<SmallVector<char>> emitObject(ModuleOp kernels, const TargetModel &target,
                                        ArrayRef<StringRef> kernelsInOrdinalOrder);

} // namespace mlir::k3

#endif // K3_CODEGEN_CPU_CPUPIPELINE_H
