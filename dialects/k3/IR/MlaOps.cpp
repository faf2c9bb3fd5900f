//===- MlaOps.cpp - constraints of the MLA ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

/// `cu` has one entry more than `lengths`, and the latent is no wider than a cached row.
static LogicalResult verifyCacheOp(Operation *op) {
  int64_t sequences = getStaticNamedDim(op, "N");
  if (!ShapedType::isDynamic(sequences) && failed(verifyNamedDim(op, "N1", "N + 1", sequences + 1)))
    return failure();
  int64_t latent = getStaticNamedDim(op, "l"), row = getStaticNamedDim(op, "lr");
  if (!ShapedType::isDynamic(latent) && !ShapedType::isDynamic(row) && latent > row)
    return op->emitOpError() << "expected 'l' <= 'lr' = " << row << ", got " << latent;
  return success();
}

LogicalResult MlaAppendOp::verifyConstraints() {
  return failure(failed(verifyCacheOp(getOperation())) || failed(verifyEps(getOperation(), "eps", getEps())));
}

LogicalResult MlaAttendOp::verifyConstraints() { return verifyCacheOp(getOperation()); }

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
