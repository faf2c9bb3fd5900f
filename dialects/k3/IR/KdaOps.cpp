//===- KdaOps.cpp - constraints of the Kda ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult KdaShortConvOp::verifyConstraints() { return success(); }
LogicalResult KdaGateOp::verifyConstraints() { return success(); }
LogicalResult KdaScanOp::verifyConstraints() { return success(); }
LogicalResult KdaRecurrentStepOp::verifyConstraints() { return success(); }
LogicalResult KdaChunkPrepareOp::verifyConstraints() { return success(); }
LogicalResult KdaChunkScanOp::verifyConstraints() { return success(); }
LogicalResult KdaGatedNormOp::verifyConstraints() { return success(); }
