//===- DimTerms.h - sizes of a function's values as terms -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PROGRAM_DIMTERMS_H
#define K3_TRANSFORMS_PROGRAM_DIMTERMS_H

#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::k3 {

/// Traces dimensions and index values of one function to terms in the symbols of its arguments' dimensions.
class DimTerms {
public:
  explicit DimTerms(MLIRContext *context) : context(context) {}

  /// States the dimensions of an argument.
  void set(Value tensor, ArrayRef<TermAttr> dims) { known[tensor].assign(dims.begin(), dims.end()); }

  /// States those of all arguments that have `k3.dims`; an error if the names do not match the dynamic dimensions.
  LogicalResult setFromAttributes(func::FuncOp function);

  /// Null if it cannot be expressed.
  TermAttr getDim(Value tensor, int64_t dim);
  TermAttr getIndex(Value index);
  TermAttr getFolded(OpFoldResult size);

private:
  TermAttr constant(int64_t value) { return TermAttr::getConstant(context, value); }

  MLIRContext *context;
  DenseMap<Value, SmallVector<TermAttr>> known;
};

} // namespace mlir::k3

#endif // K3_TRANSFORMS_PROGRAM_DIMTERMS_H
