//===- Temporaries.cpp - memory that kernels allocate -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Common/Temporaries.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

/// Constant upper bound of an index value.
static FailureOr<int64_t> getUpperBound(Value value) {
  // The minima of arith say nothing to upstream's value bounds.
  if (Operation *op = value.getDefiningOp(); isa_and_nonnull<arith::MinSIOp, arith::MinUIOp>(op)) {
    FailureOr<int64_t> first = getUpperBound(op->getOperand(0)), second = getUpperBound(op->getOperand(1));
    if (succeeded(first) && succeeded(second))
      return std::min(*first, *second);
    return succeeded(first) ? first : second;
  }
  return ValueBoundsConstraintSet::computeConstantBound(presburger::BoundType::UB, value, nullptr, /*closedUB=*/true);
}

FailureOr<int64_t> k3::getMaxBytes(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  unsigned dynamic = 0;
  for (int64_t size : type.getShape()) {
    if (ShapedType::isDynamic(size)) {
      FailureOr<int64_t> bound = getUpperBound(alloc.getDynamicSizes()[dynamic++]);
      if (failed(bound))
        return alloc.emitOpError("a kernel's temporary needs a constant upper bound of its size");
      size = std::max<int64_t>(*bound, 0);
    }
    bytes *= size;
  }
  return bytes;
}

void k3::replaceCopies(func::FuncOp kernel) {
  kernel.walk([](memref::CopyOp copy) {
    if (copy.getSource() != copy.getTarget()) { // equal where a tile was computed in place
      OpBuilder b(copy);
      linalg::CopyOp::create(b, copy.getLoc(), copy.getSource(), copy.getTarget());
    }
    copy.erase();
  });
}
