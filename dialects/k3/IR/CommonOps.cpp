//===- CommonOps.cpp - constraints of the Common ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult GatherRowsOp::verifyConstraints() { return success(); }
LogicalResult LinearOp::verifyConstraints() { return success(); }
LogicalResult MxContractOp::verifyConstraints() { return success(); }
LogicalResult RmsNormOp::verifyConstraints() { return success(); }
LogicalResult GluOp::verifyConstraints() { return success(); }
LogicalResult SigmoidGateOp::verifyConstraints() { return success(); }
