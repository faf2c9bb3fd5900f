//===- ModelFunctions.h - queries and edits of a model's functions -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_MODELFUNCTIONS_H
#define K3_TRANSFORMS_MODELFUNCTIONS_H

#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/IR/ModelAttrs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::k3 {

/// From `k3.phase`; nullopt if the function has none.
std::optional<Phase> getPhase(func::FuncOp function);

/// Names that `k3.input` can have, in the order in which they appear among a function's arguments.
llvm::ArrayRef<llvm::StringLiteral> getStepInputNames();

/// i32, dynamic where `k3.dims` names a dimension.
RankedTensorType getStepInputType(MLIRContext *context, StringRef name);

/// `k3.input` and `k3.dims` of that input.
DictionaryAttr getStepInputAttrs(MLIRContext *context, StringRef name);

/// The argument with that `k3.input`, added behind the last input if there is none.
Value getOrAddStepInput(func::FuncOp function, StringRef name);

/// The tensor that stores a state of every sequence, or null if the type is not a state. Dimension 0 is dynamic.
RankedTensorType getPoolType(Type stateType);

/// What the dynamic dimension of a state's pool is: "S" (slots) or "P" (pages).
StringRef getPoolDim(Type stateType);

/// The number of rows of `x` (dimension 0), from where its destination was made if that is known.
OpFoldResult getRows(OpBuilder &builder, Location loc, Value x);

/// A new destination.
Value createEmpty(OpBuilder &builder, Location loc, ArrayRef<OpFoldResult> sizes, Type elementType);

/// Removes ops without users and effects. Unlike CSE and canonicalize this joins no destinations and folds no slices.
void eraseDeadOps(func::FuncOp function);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_MODELFUNCTIONS_H
