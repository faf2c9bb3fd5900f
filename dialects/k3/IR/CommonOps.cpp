//===- CommonOps.cpp - constraints of the ops every layer uses -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::k3;

// Nothing beyond the shape table; ids are checked at run time.
LogicalResult GatherRowsOp::verifyConstraints() { return success(); }
LogicalResult LinearOp::verifyConstraints() {
  return failure(failed(verifyBf16Products(getOperation(), getBf16X(), getWeight())) ||
                 failed(verifyAccumulator(getOperation(), getAccumulate(), getOut())));
}
LogicalResult SigmoidGateOp::verifyConstraints() { return success(); }

LogicalResult MxContractOp::verifyConstraints() {
  if (failed(verifyAccumulator(getOperation(), getAccumulate(), getOut())))
    return failure();
  for (auto [name, value] : {std::pair("weight", getWeight()), std::pair("scale", getScale())})
    if (Type element = cast<ShapedType>(value.getType()).getElementType(); !element.isInteger(8))
      return emitOpError() << "expected i8 '" << name << "', got " << element;
  Operation *op = getOperation();
  if (int64_t k = getStaticNamedDim(op, "k"); !ShapedType::isDynamic(k)) {
    if (k % 32)
      return emitOpError() << "expected 'k' to be a multiple of 32, got " << k;
    return failure(failed(verifyNamedDim(op, "kb", "k / 2", k / 2)) ||
                   failed(verifyNamedDim(op, "kg", "k / 32", k / 32)));
  }
  if (int64_t groups = getStaticNamedDim(op, "kg"); !ShapedType::isDynamic(groups))
    return verifyNamedDim(op, "kb", "16 kg", 16 * groups);
  return success();
}

LogicalResult RmsNormOp::verifyConstraints() { return verifyEps(getOperation(), "eps", getEps()); }

LogicalResult GluOp::verifyConstraints() {
  if (getActivation() != Activation::situ)
    return success();
  for (auto [name, beta] : {std::pair("beta", getBeta()), std::pair("linear_beta", getLinearBeta())})
    if (!(beta.convertToDouble() > 0) || !beta.isFinite())
      return emitOpError() << "expected finite '" << name << "' > 0 with situ, got " << beta.convertToDouble();
  return success();
}

LogicalResult SampleOp::verifyConstraints() {
  int64_t vocabulary = getStaticNamedDim(getOperation(), "V");
  if (ShapedType::isDynamic(vocabulary) || vocabulary < 1)
    return emitOpError("expected a static 'V' of at least 1");
  return failure(failed(verifyNamedDim(getOperation(), "p", "8", 8)) ||
                 failed(verifyNamedDim(getOperation(), "w", "ceil(V / 32)", llvm::divideCeil(vocabulary, 32))));
}
