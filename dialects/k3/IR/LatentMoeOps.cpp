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

static LogicalResult verifyEnds(Operation *op) {
  int64_t experts = getStaticNamedDim(op, "E");
  return ShapedType::isDynamic(experts) ? success() : verifyNamedDim(op, "E1", "E + 1", experts + 1);
}

static Type elementOf(Value value) { return cast<ShapedType>(value.getType()).getElementType(); }

/// Packed weights have scales, others have none.
static LogicalResult verifyScale(Operation *op, StringRef weightName, Value weight, StringRef scaleName, Value scale) {
  Type element = elementOf(weight);
  bool packed = element.isInteger(8);
  if (packed && !scale)
    return op->emitOpError() << "expected '" << scaleName << "' with i8 '" << weightName << "', got none";
  if (!packed && scale)
    return op->emitOpError() << "expected no '" << scaleName << "' with " << element << " '" << weightName << "', got "
                             << scale.getType();
  if (scale && !elementOf(scale).isInteger(8))
    return op->emitOpError() << "expected i8 '" << scaleName << "', got " << elementOf(scale);
  return success();
}

static LogicalResult verifySameElement(Operation *op, Value weight, StringRef otherName, Value other) {
  if (elementOf(other) == elementOf(weight))
    return success();
  return op->emitOpError() << "expected 'weight' and '" << otherName << "' of one element type, got "
                           << elementOf(weight) << " and " << elementOf(other);
}

static LogicalResult verifyBetas(Operation *op, std::optional<Activation> activation, const APFloat &beta,
                                 const APFloat &linearBeta) {
  if (activation != Activation::situ)
    return success();
  for (auto [name, value] : {std::pair("beta", beta), std::pair("linear_beta", linearBeta)})
    if (!(value.convertToDouble() > 0) || !value.isFinite())
      return op->emitOpError() << "expected finite '" << name << "' > 0 with situ, got " << value.convertToDouble();
  return success();
}

/// Row `width` of a weight, and `groups` of its scale, hold `depth` values.
static LogicalResult verifyDepth(Operation *op, bool packed, StringRef depth, StringRef width, StringRef groups) {
  int64_t k = getStaticNamedDim(op, depth);
  if (ShapedType::isDynamic(k))
    return success();
  if (!packed)
    return verifyNamedDim(op, width, depth, k);
  if (k % 32)
    return op->emitOpError() << "expected '" << depth << "' to be a multiple of 32 with i8 'weight', got " << k;
  return failure(failed(verifyNamedDim(op, width, (depth + " / 2").str(), k / 2)) ||
                 failed(verifyNamedDim(op, groups, (depth + " / 32").str(), k / 32)));
}

LogicalResult MoeGroupedContractOp::verifyConstraints() {
  Operation *op = getOperation();
  if (failed(verifyEnds(op)) || failed(verifyBf16Products(op, getBf16X(), getWeight())) ||
      failed(verifyScale(op, "weight", getWeight(), "scale", getScale())))
    return failure();
  if (getUpWeight()) {
    if (failed(verifySameElement(op, getWeight(), "up_weight", getUpWeight())) ||
        failed(verifyScale(op, "up_weight", getUpWeight(), "up_scale", getUpScale())))
      return failure();
  } else if (getUpScale()) {
    return emitOpError("expected no 'up_scale' without 'up_weight', got one");
  }
  if (static_cast<bool>(getUpWeight()) != getActivation().has_value())
    return emitOpError() << "expected 'activation' and 'up_weight' together, got '"
                         << (getUpWeight() ? "up_weight" : "activation") << "' only";
  return failure(failed(verifyBetas(op, getActivation(), getBeta(), getLinearBeta())) ||
                 failed(verifyDepth(op, elementOf(getWeight()).isInteger(8), "kx", "wk", "kg")));
}

LogicalResult MoeExpertMlpOp::verifyConstraints() {
  Operation *op = getOperation();
  bool packed = elementOf(getWeight()).isInteger(8);
  return failure(failed(verifyEnds(op)) || failed(verifyBf16Products(op, getBf16X(), getWeight())) ||
                 failed(verifyScale(op, "weight", getWeight(), "scale", getScale())) ||
                 failed(verifySameElement(op, getWeight(), "up_weight", getUpWeight())) ||
                 failed(verifyScale(op, "up_weight", getUpWeight(), "up_scale", getUpScale())) ||
                 failed(verifySameElement(op, getWeight(), "down_weight", getDownWeight())) ||
                 failed(verifyScale(op, "down_weight", getDownWeight(), "down_scale", getDownScale())) ||
                 failed(verifyBetas(op, getActivation(), getBeta(), getLinearBeta())) ||
                 failed(verifyDepth(op, packed, "kx", "wk", "kg")) || failed(verifyDepth(op, packed, "n", "wn", "ng")));
}

LogicalResult MoeCombineOp::verifyConstraints() {
  return verifyAccumulator(getOperation(), getAccumulate(), getOut());
}
