//===- LatentMoeOps.cpp - constraints of the LatentMoE ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"

using namespace mlir;
using namespace mlir::k3;

LogicalResult MoeRouteOp::verifyConstraints() {
  int64_t experts = getStaticNamedDim(getOperation(), "E"), topK = getStaticNamedDim(getOperation(), "k");
  if (!ShapedType::isDynamic(experts) && !ShapedType::isDynamic(topK) && topK > experts)
    return emitOpError() << "expected 'k' <= 'E' = " << experts << ", got " << topK;
  return success();
}

LogicalResult MoePlanOp::verifyConstraints() { return success(); }

LogicalResult MoeGroupedContractOp::verifyConstraints() {
  Operation *op = getOperation();
  if (int64_t experts = getStaticNamedDim(op, "E"); !ShapedType::isDynamic(experts))
    if (failed(verifyNamedDim(op, "E1", "E + 1", experts + 1)))
      return failure();

  if (failed(verifyBf16Products(op, getBf16X(), getWeight())))
    return failure();
  Type element = cast<ShapedType>(getWeight().getType()).getElementType();
  bool packed = element.isInteger(8);
  auto checkScale = [&](StringRef weight, StringRef name, Value scale) -> LogicalResult {
    if (packed && !scale)
      return emitOpError() << "expected '" << name << "' with i8 '" << weight << "', got none";
    if (!packed && scale)
      return emitOpError() << "expected no '" << name << "' with " << element << " '" << weight << "', got "
                           << scale.getType();
    if (scale && !cast<ShapedType>(scale.getType()).getElementType().isInteger(8))
      return emitOpError() << "expected i8 '" << name << "', got "
                           << cast<ShapedType>(scale.getType()).getElementType();
    return success();
  };
  if (failed(checkScale("weight", "scale", getScale())))
    return failure();
  if (getUpWeight()) {
    if (Type up = cast<ShapedType>(getUpWeight().getType()).getElementType(); up != element)
      return emitOpError() << "expected 'weight' and 'up_weight' of one element type, got " << element << " and " << up;
    if (failed(checkScale("up_weight", "up_scale", getUpScale())))
      return failure();
  } else if (getUpScale()) {
    return emitOpError("expected no 'up_scale' without 'up_weight', got one");
  }

  if (static_cast<bool>(getUpWeight()) != getActivation().has_value())
    return emitOpError() << "expected 'activation' and 'up_weight' together, got '"
                         << (getUpWeight() ? "up_weight" : "activation") << "' only";
  if (getActivation() == Activation::situ)
    for (auto [name, beta] : {std::pair("beta", getBeta()), std::pair("linear_beta", getLinearBeta())})
      if (!(beta.convertToDouble() > 0) || !beta.isFinite())
        return emitOpError() << "expected finite '" << name << "' > 0 with situ, got " << beta.convertToDouble();

  int64_t k = getStaticNamedDim(op, "kx");
  if (ShapedType::isDynamic(k))
    return success();
  if (!packed)
    return verifyNamedDim(op, "wk", "kx", k);
  if (k % 32)
    return emitOpError() << "expected 'kx' to be a multiple of 32 with i8 'weight', got " << k;
  return failure(failed(verifyNamedDim(op, "wk", "kx / 2", k / 2)) ||
                 failed(verifyNamedDim(op, "kg", "kx / 32", k / 32)));
}

LogicalResult MoeCombineOp::verifyConstraints() {
  return verifyAccumulator(getOperation(), getAccumulate(), getOut());
}
