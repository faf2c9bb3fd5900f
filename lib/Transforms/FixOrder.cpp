//===- FixOrder.cpp - sums in an order of their own -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_FIXORDER
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct FixOrderPass : k3::impl::FixOrderBase<FixOrderPass> {
  void runOnOperation() override {
    if (getPhase(getOperation()) != Phase::decode)
      return;
    getOperation().walk([](Operation *op) {
      llvm::TypeSwitch<Operation *>(op).Case<LinearOp, MxContractOp, MoeGroupedContractOp, KdaScanOp>(
          [](auto sums) { sums.setFixedOrder(true); });
    });
  }
};
} // namespace
