//===- GenericKernels.h - kernels of decomposed ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_GENERICKERNELS_H
#define K3_CODEGEN_GPU_GENERICKERNELS_H

#include "lib/Codegen/GPU/KernelAttrNames.h"
#include "lib/Codegen/GPU/Tile/GpuBuilder.h"

namespace mlir::k3 {

/// A kernel of the strategy `generic`, from k3-gpu-record-launch on.
bool isGenericKernel(func::FuncOp func);

/// What is left of such a kernel's config: its strategy, threads and shared memory.
KernelConfigAttr getGenericConfig(func::FuncOp kernel);

/// A dense memref of static type `type` that starts at `pointer`, in any address space.
Value viewPointer(const GpuBuilder &g, Value pointer, MemRefType type);

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_GENERICKERNELS_H
