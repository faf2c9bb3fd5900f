//===- Kernels.h - kernel functions and their attributes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_KERNELS_H
#define K3_CODEGEN_COMMON_KERNELS_H

#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::k3 {

/// Unit attribute of a kernel function.
inline constexpr StringRef kernelAttrName = "k3.kernel";
/// i64 attribute of a kernel: bytes of scratch memory a workgroup needs (absent = 0).
inline constexpr StringRef scratchBytesAttrName = "k3.scratch_bytes";
/// Attribute of an argument that is bound to a table of pointers, one per expert.
inline constexpr StringRef expertGroupAttrName = "k3.expert_group";
/// Attributes of the arguments that code generation appends: the grid position, and the scratch memory.
inline constexpr StringRef workgroupIdAttrName = "k3.workgroup_id";
inline constexpr StringRef scratchAttrName = "k3.scratch";

/// The `kernel_config` of a structured op.
inline constexpr StringRef kernelConfigAttrName = "kernel_config";
inline constexpr StringRef strategyVector = "vector";
inline constexpr StringRef strategyGeneric = "generic";

bool isKernel(func::FuncOp func);

/// The one structured op of a kernel; emits an error if there is none or more than one.
FailureOr<StructuredOpInterface> getKernelRoot(func::FuncOp kernel);

KernelConfigAttr getKernelConfig(Operation *op);

/// The function argument that `buffer` (a memref) is a view of, or null.
BlockArgument getViewedArgument(Value buffer);

/// A module with copies of the kernels of `module` and its target, for the pipeline to work on.
OwningOpRef<ModuleOp> extractKernels(ModuleOp module);

} // namespace mlir::k3

#endif // K3_CODEGEN_COMMON_KERNELS_H
