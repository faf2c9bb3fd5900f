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

/// At least one input before the current one, all of them in the state.
static LogicalResult verifyTaps(Operation *op) {
  int64_t taps = getStaticNamedDim(op, "taps");
  if (ShapedType::isDynamic(taps))
    return success();
  if (taps < 2)
    return op->emitOpError() << "expected 'taps' >= 2, got " << taps;
  return verifyNamedDim(op, "hist", "taps - 1", taps - 1);
}

LogicalResult KdaShortConvOp::verifyConstraints() {
  return failure(failed(verifyTaps(getOperation())) || failed(verifyBoundaries(getOperation())));
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

LogicalResult KdaDecodeStepOp::verifyConstraints() {
  Operation *op = getOperation();
  int64_t heads = getStaticNamedDim(op, "H"), keys = getStaticNamedDim(op, "K"), values = getStaticNamedDim(op, "V");
  auto verifyWidth = [&](StringRef name, StringRef formula, int64_t size) {
    bool isKnown = !ShapedType::isDynamic(heads) && !ShapedType::isDynamic(size);
    return isKnown ? verifyNamedDim(op, name, formula, heads * size) : success();
  };
  return failure(failed(verifyWidth("CK", "H K", keys)) || failed(verifyWidth("CV", "H V", values)) ||
                 failed(verifyTaps(op)) || failed(verifyGate(op, getKind(), getLowerBound(), getALog())) || failed(verifyEps(op, "eps", getEps())));
}

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
