//===- Temporaries.h - memory that kernels allocate -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_COMMON_TEMPORARIES_H
#define K3_CODEGEN_COMMON_TEMPORARIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::k3 {

/// Most bytes an allocation can take, from the bounds of its dynamic sizes; an error if they have none.
FailureOr<int64_t> getMaxBytes(memref::AllocOp alloc);

/// memref.copy to linalg.copy: what is copied in a kernel is data that its op moves, and kernels call no memcpy. Copies
/// of a buffer to itself vanish.
void replaceCopies(func::FuncOp kernel);

} // namespace mlir::k3

#endif // K3_CODEGEN_COMMON_TEMPORARIES_H
