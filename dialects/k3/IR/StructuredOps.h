//===- StructuredOps.h - what follows from a shape table -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Free functions behind the structured ops: everything here reads the op's shape table
// (StructuredOpInterface::getShapeTable) and nothing else, so that a new op needs no code for it.
//
//===----------------------------------------------------------------------===//
#ifndef K3_IR_STRUCTUREDOPS_H
#define K3_IR_STRUCTUREDOPS_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::k3 {

/// One dimension of one operand, as named in the shape table.
struct DimName {
  llvm::StringRef name;
  /// Indexed by the loop or dimension `name`, but the operand may be longer ("H+").
  bool atLeast = false;
  /// The operand may lack this dimension ("K?").
  bool optional = false;
};

/// Names of the parallel loops of a structured op, in order.
llvm::SmallVector<llvm::StringRef> getLoopNames(Operation *op);

/// Dimension names of operand `operandNumber`; empty for scalars. As many as the operand has dimensions.
llvm::SmallVector<DimName> getDimNames(Operation *op, unsigned operandNumber);

/// The ODS name of an operand ("q"), for messages and lookups.
llvm::StringRef getOperandName(Operation *op, unsigned operandNumber);

/// Where `name` occurs has size `want`, if both are static. `formula` says in the message where `want` comes from.
llvm::LogicalResult verifyNamedDim(Operation *op, llvm::StringRef name, llvm::StringRef formula, int64_t want);

/// `value`, an attribute of the op called `name`, is finite and >= 0 (an epsilon).
llvm::LogicalResult verifyEps(Operation *op, llvm::StringRef name, const llvm::APFloat &value);

/// Ranks match the table, equal names have equal static sizes, all operands are tensors or all are memrefs, and tensor
/// results have the types of the destinations.
llvm::LogicalResult verifyShapeTable(Operation *op);

void getStructuredEffects(Operation *op,
                          llvm::SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects);

llvm::LogicalResult reifyStructuredShapes(OpBuilder &b, Operation *op, ReifiedRankedShapedTypeDims &dims);

/// Folds of every structured op: without rows it returns its destinations, and casts of memrefs are looked through.
llvm::LogicalResult foldStructuredOp(Operation *op, llvm::SmallVectorImpl<OpFoldResult> &results);

/// Size of the dimension called `name`, from the first operand that has it: an attribute if static, else a value.
OpFoldResult getNamedDim(OpBuilder &b, Operation *op, llvm::StringRef name);

/// The same when it is static; ShapedType::kDynamic otherwise.
int64_t getStaticNamedDim(Operation *op, llvm::StringRef name);

/// `bf16_x` on a product needs a weight whose values are exact in bf16.
llvm::LogicalResult verifyBf16Products(Operation *op, bool bf16X, Value weight);
/// What is added up over several ops is kept in f32.
llvm::LogicalResult verifyAccumulator(Operation *op, bool accumulates, Value out);

} // namespace mlir::k3

#endif // K3_IR_STRUCTUREDOPS_H
