//===- LatentMoeOps.cpp - constraints of the LatentMoe ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult MoeRouteOp::verifyConstraints() { return success(); }
LogicalResult MoePlanOp::verifyConstraints() { return success(); }
LogicalResult MoeGroupedContractOp::verifyConstraints() { return success(); }
LogicalResult MoeCombineOp::verifyConstraints() { return success(); }
