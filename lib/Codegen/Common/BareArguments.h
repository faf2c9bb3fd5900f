//===- BareArguments.h - kernels on bare pointers and sizes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_BAREARGUMENTS_H
#define K3_CODEGEN_COMMON_BAREARGUMENTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::k3 {

/// Rewrites the arguments of a kernel on memrefs as the kernel ABI has them: a memref of rank 0 per buffer, the dynamic
/// sizes of the buffers as index values, the index arguments; then, in their order, the arguments that have one of the
/// attributes `extras` (memrefs among them have static shapes and become rank 0, too). Buffers are `noalias`.
LogicalResult makeArgumentsBare(func::FuncOp kernel, ArrayRef<StringRef> extras);

} // namespace mlir::k3

#endif // K3_CODEGEN_COMMON_BAREARGUMENTS_H
