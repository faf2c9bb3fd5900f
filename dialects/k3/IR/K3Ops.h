//===- K3Ops.h - ops, types and attributes of the k3 dialect -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_IR_K3OPS_H
#define K3_IR_K3OPS_H

#include "dialects/k3/IR/StructuredOps.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/k3/IR/K3Enums.h.inc"
#include "dialects/k3/IR/K3OpsDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/k3/IR/K3Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/k3/IR/K3OpsTypes.h.inc"
#include "dialects/k3/IR/K3Interfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/k3/IR/K3Ops.h.inc"

#endif // K3_IR_K3OPS_H
