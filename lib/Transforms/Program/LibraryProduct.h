//===- LibraryProduct.h - kernels that a library can stand in for -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PROGRAM_LIBRARYPRODUCT_H
#define K3_TRANSFORMS_PROGRAM_LIBRARYPRODUCT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::k3 {

/// The attribute kProductAttr of a kernel in the form of the stage dispatch, if it is a product of whole bindings in bf16;
/// else null.
DenseI64ArrayAttr getLibraryProduct(func::FuncOp kernel);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_PROGRAM_LIBRARYPRODUCT_H
