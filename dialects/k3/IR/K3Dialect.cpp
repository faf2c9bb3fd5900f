//===- K3Dialect.cpp - registration of the k3 dialect -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::k3;

/// `[1, 0]`, and `[]` for a kernel without parallel loops.
static ParseResult parseTiles(AsmParser &parser, SmallVectorImpl<int64_t> &tiles) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(tiles.emplace_back()); });
}

static void printTiles(AsmPrinter &printer, ArrayRef<int64_t> tiles) {
  printer << "[";
  llvm::interleaveComma(tiles, printer);
  printer << "]";
}

#include "dialects/k3/IR/K3Enums.cpp.inc"
#include "dialects/k3/IR/K3OpsDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/k3/IR/K3Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/k3/IR/K3OpsTypes.cpp.inc"
#include "dialects/k3/IR/K3Interfaces.cpp.inc"

void K3Dialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/k3/IR/K3Attrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/k3/IR/K3OpsTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/k3/IR/K3Ops.cpp.inc"
      >();
}

static LogicalResult verifyState(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> sizes, Type element) {
  for (int64_t size : sizes)
    if (size <= 0)
      return emitError() << "expected positive sizes, got " << size;
  if (!element.isF32() && !element.isBF16())
    return emitError() << "expected f32 or bf16 elements, got " << element;
  return success();
}

LogicalResult KdaStateType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t heads, int64_t key,
                                   int64_t value, Type elementType, StateRow) {
  return verifyState(emitError, {heads, key, value}, elementType);
}

LogicalResult ConvStateType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t channels, int64_t taps,
                                    Type elementType) {
  return verifyState(emitError, {channels, taps}, elementType);
}

LogicalResult KvCacheType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t latent, int64_t rope,
                                  Type elementType, int64_t page) {
  return verifyState(emitError, {latent, rope, page}, elementType);
}
