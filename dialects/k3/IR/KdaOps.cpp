//===- KdaOps.cpp - constraints of the KDA ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

/// `cu` has one entry more than `slots`.
static LogicalResult verifyBoundaries(Operation *op) {
  int64_t sequences = getStaticNamedDim(op, "N");
  return ShapedType::isDynamic(sequences) ? success() : verifyNamedDim(op, "N1", "N + 1", sequences + 1);
}

LogicalResult KdaShortConvOp::verifyConstraints() {
  Operation *op = getOperation();
  int64_t taps = getStaticNamedDim(op, "taps");
  if (!ShapedType::isDynamic(taps)) {
    if (taps < 2)
      return emitOpError() << "expected 'taps' >= 2, got " << taps;
    if (failed(verifyNamedDim(op, "hist", "taps - 1", taps - 1)))
      return failure();
  }
  return verifyBoundaries(op);
}

static LogicalResult verifyGate(Operation *op, GateKind kind, std::optional<APFloat> lowerBound, Value aLog) {
  if (kind == GateKind::bounded_sigmoid) {
    if (!lowerBound)
      return op->emitOpError("expected 'lower_bound' < 0 with bounded_sigmoid, got none");
    if (double bound = lowerBound->convertToDouble(); !(bound < 0) || !lowerBound->isFinite())
      return op->emitOpError() << "expected finite 'lower_bound' < 0 with bounded_sigmoid, got " << bound;
    return success();
  }
  if (lowerBound)
    return op->emitOpError() << "expected no 'lower_bound' with softplus, got " << lowerBound->convertToDouble();
  if (!aLog)
    return op->emitOpError("expected 'a_log' with softplus, got none");
  return success();
}

LogicalResult KdaGateOp::verifyConstraints() {
  return verifyGate(getOperation(), getKind(), getLowerBound(), getALog());
}

LogicalResult KdaScanOp::verifyConstraints() {
  if (getGateBound() && !(getGateBound()->convertToDouble() <= 0))
    return emitOpError() << "expected 'gate_bound' <= 0, got " << getGateBound()->convertToDouble();
  return verifyBoundaries(getOperation());
}

LogicalResult KdaRecurrentStepOp::verifyConstraints() { return success(); }

LogicalResult KdaChunkPrepareOp::verifyConstraints() {
  if (failed(verifyNamedDim(getOperation(), "two", "first row and rows", 2)))
    return failure();
  int64_t rows = getStaticNamedDim(getOperation(), "L");
  if (rows != 16 && rows != 32 && rows != 64)
    return emitOpError() << "expected 'L' = 16, 32 or 64, got "
                         << (ShapedType::isDynamic(rows) ? "?" : Twine(rows).str());
  if (getGate().has_value() != static_cast<bool>(getDtBias()))
    return emitOpError("expected 'dt_bias' if and only if there is a 'gate'");
  if (getGate())
    return verifyGate(getOperation(), *getGate(), getLowerBound(), getALog());
  if (getALog() || getLowerBound())
    return emitOpError("expected no 'a_log' and no 'lower_bound' without 'gate'");
  return success();
}

LogicalResult KdaChunkScanOp::verifyConstraints() {
  return failure(failed(verifyNamedDim(getOperation(), "two", "first row and rows", 2)) ||
                 failed(verifyBoundaries(getOperation())));
}

LogicalResult KdaGatedNormOp::verifyConstraints() { return verifyEps(getOperation(), "eps", getEps()); }
