//===- RelaxReductions.cpp - let float reductions vectorize -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Kernels.h"
#include "lib/Codegen/CPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_K3RELAXREDUCTIONS
#include "lib/Codegen/CPU/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct RelaxReductions : k3::impl::K3RelaxReductionsBase<RelaxReductions> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isKernel(func))
      return;
    auto flags = arith::FastMathFlagsAttr::get(&getContext(), arith::FastMathFlags::reassoc |
                                                                  arith::FastMathFlags::contract |
                                                                  arith::FastMathFlags::nsz);
    func.walk([&](linalg::LinalgOp op) {
      if (op.getNumReductionLoops() == 0)
        return;
      op.getBlock()->walk([&](Operation *inner) {
        if (isa<arith::AddFOp, arith::MulFOp>(inner))
          cast<arith::ArithFastMathInterface>(inner)->setAttr("fastmath", flags);
      });
    });
  }
};
} // namespace
