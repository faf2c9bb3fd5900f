//===- Dispatches.h - kernels and the calls of them -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The form that layer functions have after the stage dispatch, and its contract.
//
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PROGRAM_DISPATCHES_H
#define K3_TRANSFORMS_PROGRAM_DISPATCHES_H

#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::k3 {

/// Unit attribute of a kernel function.
inline constexpr llvm::StringLiteral kKernelAttr = "k3.kernel";
/// The structured op a kernel was made from, as a string.
inline constexpr llvm::StringLiteral kSourceOpAttr = "k3.source_op";

/// Of an `exec.kernel`: five integers, what the table Product of the artifact says (runtime/schemas/k3_artifact.fbs), in its
/// order.
inline constexpr llvm::StringLiteral kProductAttr = "k3.product";
/// Unit attribute of an `exec.kernel` for a GPU, known when there is a cubin: Launch.starts_early of the artifact.
inline constexpr llvm::StringLiteral kStartsEarlyAttr = "k3.starts_early";
/// The same for Launch.resident.
inline constexpr llvm::StringLiteral kResidentAttr = "k3.resident";

/// Functions with `k3.phase`, in module order.
SmallVector<func::FuncOp> getPhaseFunctions(ModuleOp module);

/// The one structured op of a kernel; emits an error if there is none or more than one.
FailureOr<StructuredOpInterface> getRootOp(func::FuncOp kernel);

/// Whether operand `index` of a call is a destination: the last operands are, one per result.
inline bool isDestination(func::CallOp call, unsigned index) {
  return index >= call.getNumOperands() - call.getNumResults();
}

/// Follows results of calls back through their destinations to an argument or a `tensor.empty`.
Value getBuffer(Value tensor);

/// Checks what the stage dispatch promises: layer functions hold only calls of kernels and what sizes need, kernels are
/// in destination style around one structured op, a destination is dead after its call, results update arguments in
/// place.
LogicalResult verifyDispatches(ModuleOp module);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_PROGRAM_DISPATCHES_H
