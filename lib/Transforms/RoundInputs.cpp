//===- RoundInputs.cpp - bf16 inputs for the products of prefill -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "lib/Transforms/ModelFunctions.h"
#include "lib/Transforms/Passes.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_ROUNDINPUTS
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

/// bf16, or MXFP4 codes.
static bool isExactInBf16(Value weight) {
  Type element = cast<ShapedType>(weight.getType()).getElementType();
  return element.isBF16() || element.isInteger(8);
}

/// Which experts a token goes to must not depend on how its scores are multiplied.
static bool isRouter(LinearOp op) {
  return llvm::any_of(op->getUsers(), [](Operation *user) { return isa<MoeRouteOp>(user); });
}

namespace {
struct RoundInputsPass : k3::impl::RoundInputsBase<RoundInputsPass> {
  using RoundInputsBase::RoundInputsBase;
  void runOnOperation() override {
    if (getPhase(getOperation()) != Phase::prefill && !decode)
      return;
    getOperation().walk([](Operation *op) {
      if (auto linear = dyn_cast<LinearOp>(op); linear && isExactInBf16(linear.getWeight()) && !isRouter(linear))
        linear.setBf16X(true);
      if (auto experts = dyn_cast<MoeGroupedContractOp>(op); experts && isExactInBf16(experts.getWeight()))
        experts.setBf16X(true);
      if (auto packed = dyn_cast<MxContractOp>(op))
        packed.setBf16X(true);
      if (auto attend = dyn_cast<MlaAttendOp>(op); attend && isExactInBf16(attend.getCache()))
        attend.setBf16X(true);
    });
  }
};
} // namespace
