//===- MlaOps.cpp - constraints of the MLA ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

/// The latent is no wider than a cached row.
static LogicalResult verifyLatent(Operation *op) {
  int64_t latent = getStaticNamedDim(op, "l"), row = getStaticNamedDim(op, "lr");
  if (!ShapedType::isDynamic(latent) && !ShapedType::isDynamic(row) && latent > row)
    return op->emitOpError() << "expected 'l' <= 'lr' = " << row << ", got " << latent;
  return success();
}

/// `cu` has one entry more than `lengths`, too.
static LogicalResult verifyCacheOp(Operation *op) {
  int64_t sequences = getStaticNamedDim(op, "N");
  if (!ShapedType::isDynamic(sequences) && failed(verifyNamedDim(op, "N1", "N + 1", sequences + 1)))
    return failure();
  return verifyLatent(op);
}

/// What says how a context is cut into parts.
static LogicalResult verifyParts(Operation *op, int64_t tile) {
  if (tile < 1)
    return op->emitOpError() << "expected 'tile' >= 1, got " << tile;
  return verifyNamedDim(op, "two", "2", 2);
}

LogicalResult MlaAppendOp::verifyConstraints() {
  return failure(failed(verifyCacheOp(getOperation())) || failed(verifyEps(getOperation(), "eps", getEps())));
}

LogicalResult MlaAttendOp::verifyConstraints() {
  if (Type element = getElementTypeOrSelf(getCache().getType()); getBf16X() && !element.isBF16())
    return emitOpError() << "expected a bf16 'cache' with 'bf16_x', got " << element;
  return verifyCacheOp(getOperation());
}

LogicalResult MlaAttendPartialOp::verifyConstraints() {
  return failure(failed(verifyParts(getOperation(), getTile())) || failed(verifyLatent(getOperation())));
}

LogicalResult MlaAttendMergeOp::verifyConstraints() { return verifyParts(getOperation(), getTile()); }

LogicalResult MlaAbsorbOp::verifyConstraints() {
  Operation *op = getOperation();
  int64_t nope = getNope();
  for (StringRef bound : {"qd", "nv"})
    if (int64_t size = getStaticNamedDim(op, bound); nope <= 0 || (!ShapedType::isDynamic(size) && nope >= size))
      return emitOpError() << "expected 0 < 'nope' < '" << bound
                           << "' = " << (ShapedType::isDynamic(size) ? "?" : Twine(size).str()) << ", got " << nope;
  int64_t latent = getStaticNamedDim(op, "l"), query = getStaticNamedDim(op, "qd");
  if (ShapedType::isDynamic(latent) || ShapedType::isDynamic(query))
    return success();
  return verifyNamedDim(op, "lr", "l + qd - nope", latent + query - nope);
}

LogicalResult MlaExpandOp::verifyConstraints() {
  if (getNope() <= 0)
    return emitOpError() << "expected 'nope' > 0, got " << getNope();
  int64_t value = getStaticNamedDim(getOperation(), "v");
  if (ShapedType::isDynamic(value))
    return success();
  return verifyNamedDim(getOperation(), "nv", "nope + v", getNope() + value);
}
