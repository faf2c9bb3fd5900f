//===- AttnResOps.cpp - constraints of the AttnRes ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult AttnResMixOp::verifyConstraints() {
  Operation *op = getOperation();
  if (failed(verifyNamedDim(op, "one", "rows of proj_weight", 1)) || failed(verifyEps(op, "eps", getEps())))
    return failure();
  if (static_cast<bool>(getOutWeight()) != getOutEps().has_value())
    return emitOpError() << "expected 'out_weight' and 'out_eps' together, got '"
                         << (getOutWeight() ? "out_weight" : "out_eps") << "' only";
  return getOutEps() ? verifyEps(op, "out_eps", *getOutEps()) : success();
}

// (C1) is about run-time values.
LogicalResult AttnResAccumulateOp::verifyConstraints() { return success(); }
