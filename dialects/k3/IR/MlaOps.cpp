//===- MlaOps.cpp - constraints of the Mla ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult MlaAppendOp::verifyConstraints() { return success(); }
LogicalResult MlaAbsorbOp::verifyConstraints() { return success(); }
LogicalResult MlaAttendOp::verifyConstraints() { return success(); }
LogicalResult MlaExpandOp::verifyConstraints() { return success(); }
