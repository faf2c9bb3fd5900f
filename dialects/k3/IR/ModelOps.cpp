//===- ModelOps.cpp - verifiers and type inference of the model-level ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/IR/TypeInference.h"

using namespace mlir;
using namespace mlir::k3;

static Type typeOf(Value value) { return value ? value.getType() : Type(); }

/// Appends the inferred type, and the types of the states that pass through the op.
static LogicalResult append(FailureOr<RankedTensorType> inferred, ArrayRef<Value> states,
                            SmallVectorImpl<Type> &results) {
  if (failed(inferred))
    return failure();
  results.push_back(*inferred);
  for (Value state : states)
    results.push_back(state.getType());
  return success();
}

/// (C2) of k3.mlp and (C6) of k3.latent_moe.block.
template <typename OpTy> static LogicalResult verifyActivation(OpTy op) {
  auto check = [&](StringRef name, std::optional<APFloat> beta) -> LogicalResult {
    if (op.getActivation() == Activation::swiglu)
      return beta ? op.emitOpError() << "expected no '" << name << "' with swiglu, got " << beta->convertToDouble()
                  : LogicalResult(success());
    if (!beta)
      return op.emitOpError() << "expected '" << name << "' > 0 with situ, got none";
    if (!(beta->convertToDouble() > 0) || !beta->isFinite())
      return op.emitOpError() << "expected finite '" << name << "' > 0 with situ, got " << beta->convertToDouble();
    return success();
  };
  return failure(failed(check("beta", op.getBeta())) || failed(check("linear_beta", op.getLinearBeta())));
}

/// Operands that come together or not at all.
static LogicalResult verifyTogether(Operation *op, ArrayRef<std::pair<StringRef, Value>> operands) {
  for (auto [name, value] : operands)
    if (static_cast<bool>(value) != static_cast<bool>(operands.front().second)) {
      auto [present, absent] =
          value ? std::pair(name, operands.front().first) : std::pair(operands.front().first, name);
      return op->emitOpError() << "expected '" << present << "' and '" << absent << "' together, got '" << present
                               << "' only";
    }
  return success();
}

/// One way to give a matrix or the other, not both and not none.
static LogicalResult verifyEither(Operation *op, StringRef whole, Value wholeValue, StringRef lowRank,
                                  Value lowRankValue) {
  if (static_cast<bool>(wholeValue) != static_cast<bool>(lowRankValue))
    return success();
  return op->emitOpError() << "expected either '" << whole << "' or '" << lowRank << "', got "
                           << (wholeValue ? "both" : "none");
}

//===----------------------------------------------------------------------===//
// Embedding, head, MLP
//===----------------------------------------------------------------------===//

LogicalResult EmbedOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type> &results) {
  return append(inferEmbed(loc, typeOf(adaptor.getTokens()), typeOf(adaptor.getTable())), {}, results);
}

LogicalResult LmHeadOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  return append(inferLmHead(loc, typeOf(adaptor.getX()), typeOf(adaptor.getNorm()), typeOf(adaptor.getWeight()),
                            typeOf(adaptor.getRows())),
                {}, results);
}

LogicalResult LmHeadOp::verify() { return verifyEps(getOperation(), "eps", getEps()); }

LogicalResult MlpOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  return append(inferMlp(loc, typeOf(adaptor.getX()), typeOf(adaptor.getGateProj()), typeOf(adaptor.getUpProj()),
                         typeOf(adaptor.getDownProj())),
                {}, results);
}

LogicalResult MlpOp::verify() { return verifyActivation(*this); }

//===----------------------------------------------------------------------===//
// Kimi Delta Attention
//===----------------------------------------------------------------------===//

LogicalResult KdaAttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                               SmallVectorImpl<Type> &results) {
  KdaAttentionTypes types;
  types.x = typeOf(adaptor.getX());
  types.qConvState = typeOf(adaptor.getQConvState());
  types.kConvState = typeOf(adaptor.getKConvState());
  types.vConvState = typeOf(adaptor.getVConvState());
  types.state = typeOf(adaptor.getState());
  types.qProj = typeOf(adaptor.getQProj());
  types.kProj = typeOf(adaptor.getKProj());
  types.vProj = typeOf(adaptor.getVProj());
  types.bProj = typeOf(adaptor.getBProj());
  types.qConv1d = typeOf(adaptor.getQConv1d());
  types.kConv1d = typeOf(adaptor.getKConv1d());
  types.vConv1d = typeOf(adaptor.getVConv1d());
  types.fProj = typeOf(adaptor.getFProj());
  types.fAProj = typeOf(adaptor.getFAProj());
  types.fBProj = typeOf(adaptor.getFBProj());
  types.dtBias = typeOf(adaptor.getDtBias());
  types.oNorm = typeOf(adaptor.getONorm());
  types.oProj = typeOf(adaptor.getOProj());
  types.aLog = typeOf(adaptor.getALog());
  types.gProj = typeOf(adaptor.getGProj());
  types.gAProj = typeOf(adaptor.getGAProj());
  types.gBProj = typeOf(adaptor.getGBProj());
  types.heads = adaptor.getHeads();
  types.keyDim = adaptor.getKeyDim();
  types.valueDim = adaptor.getValueDim();
  return append(inferKdaAttention(loc, types),
                {adaptor.getQConvState(), adaptor.getKConvState(), adaptor.getVConvState(), adaptor.getState()},
                results);
}

LogicalResult KdaAttentionOp::verify() {
  Operation *op = getOperation();
  if (failed(verifyTogether(op, {{"f_a_proj", getFAProj()}, {"f_b_proj", getFBProj()}})) ||
      failed(verifyEither(op, "f_proj", getFProj(), "f_a_proj", getFAProj())) ||
      failed(verifyTogether(op, {{"g_a_proj", getGAProj()}, {"g_b_proj", getGBProj()}})) ||
      failed(verifyEither(op, "g_proj", getGProj(), "g_a_proj", getGAProj())))
    return failure();
  if (getGate() == GateKind::bounded_sigmoid) {
    if (!getLowerBound())
      return emitOpError("expected 'lower_bound' < 0 with bounded_sigmoid, got none");
    if (double bound = getLowerBound()->convertToDouble(); !(bound < 0) || !getLowerBound()->isFinite())
      return emitOpError() << "expected finite 'lower_bound' < 0 with bounded_sigmoid, got " << bound;
  } else {
    if (getLowerBound())
      return emitOpError() << "expected no 'lower_bound' with softplus, got " << getLowerBound()->convertToDouble();
    if (!getALog())
      return emitOpError("expected 'a_log' with softplus, got none");
  }
  return verifyEps(op, "eps", getEps());
}

void KdaAttentionOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getY(), "kda_y");
  setName(getQConvStateOut(), "q_conv");
  setName(getKConvStateOut(), "k_conv");
  setName(getVConvStateOut(), "v_conv");
  setName(getStateOut(), "kda_state");
}

//===----------------------------------------------------------------------===//
// Gated MLA
//===----------------------------------------------------------------------===//

LogicalResult MlaAttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                               SmallVectorImpl<Type> &results) {
  MlaAttentionTypes types;
  types.x = typeOf(adaptor.getX());
  types.cache = typeOf(adaptor.getCache());
  types.kvAProj = typeOf(adaptor.getKvAProj());
  types.kvALayernorm = typeOf(adaptor.getKvALayernorm());
  types.kvBProj = typeOf(adaptor.getKvBProj());
  types.oProj = typeOf(adaptor.getOProj());
  types.qProj = typeOf(adaptor.getQProj());
  types.qAProj = typeOf(adaptor.getQAProj());
  types.qALayernorm = typeOf(adaptor.getQALayernorm());
  types.qBProj = typeOf(adaptor.getQBProj());
  types.gProj = typeOf(adaptor.getGProj());
  types.heads = adaptor.getHeads();
  types.nopeDim = adaptor.getNopeDim();
  types.ropeDim = adaptor.getRopeDim();
  types.valueDim = adaptor.getValueDim();
  return append(inferMlaAttention(loc, types), {adaptor.getCache()}, results);
}

LogicalResult MlaAttentionOp::verify() {
  Operation *op = getOperation();
  if (failed(verifyTogether(
          op, {{"q_a_proj", getQAProj()}, {"q_a_layernorm", getQALayernorm()}, {"q_b_proj", getQBProj()}})) ||
      failed(verifyEither(op, "q_proj", getQProj(), "q_a_proj", getQAProj())))
    return failure();
  return verifyEps(op, "latent_eps", getLatentEps());
}

void MlaAttentionOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getY(), "mla_y");
  setName(getCacheOut(), "mla_cache");
}

//===----------------------------------------------------------------------===//
// LatentMoE
//===----------------------------------------------------------------------===//

LogicalResult LatentMoeBlockOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &results) {
  LatentMoeBlockTypes types;
  types.x = typeOf(adaptor.getX());
  types.router = typeOf(adaptor.getRouter());
  types.bias = typeOf(adaptor.getBias());
  types.w1 = typeOf(adaptor.getW1());
  types.w3 = typeOf(adaptor.getW3());
  types.w2 = typeOf(adaptor.getW2());
  types.w1Scale = typeOf(adaptor.getW1Scale());
  types.w3Scale = typeOf(adaptor.getW3Scale());
  types.w2Scale = typeOf(adaptor.getW2Scale());
  types.latentDown = typeOf(adaptor.getLatentDown());
  types.latentNorm = typeOf(adaptor.getLatentNorm());
  types.latentUp = typeOf(adaptor.getLatentUp());
  types.sharedGate = typeOf(adaptor.getSharedGate());
  types.sharedUp = typeOf(adaptor.getSharedUp());
  types.sharedDown = typeOf(adaptor.getSharedDown());
  return append(inferLatentMoeBlock(loc, types), {}, results);
}

LogicalResult LatentMoeBlockOp::verify() {
  Operation *op = getOperation();
  if (failed(verifyTogether(op, {{"latent_down", getLatentDown()}, {"latent_up", getLatentUp()}})) ||
      failed(verifyTogether(
          op, {{"shared_gate", getSharedGate()}, {"shared_up", getSharedUp()}, {"shared_down", getSharedDown()}})))
    return failure();
  if (getLatentNorm() && !getLatentDown())
    return emitOpError("expected 'latent_norm' with 'latent_down' only, got it without");
  if (getLatentNorm() && !getEps())
    return emitOpError("expected 'eps' with 'latent_norm', got none");
  if (!getLatentNorm() && getEps())
    return emitOpError() << "expected no 'eps' without 'latent_norm', got " << getEps()->convertToDouble();
  if (getEps() && failed(verifyEps(op, "eps", *getEps())))
    return failure();

  Type element = getW1().getType().getElementType();
  bool packed = element.isInteger(8);
  for (auto [name, matrix, scale] : {std::tuple("w1", getW1(), getW1Scale()), std::tuple("w3", getW3(), getW3Scale()),
                                     std::tuple("w2", getW2(), getW2Scale())}) {
    if (matrix.getType().getElementType() != element)
      return emitOpError() << "expected 'w1' and '" << name << "' of one element type, got " << element << " and "
                           << matrix.getType().getElementType();
    if (packed && !scale)
      return emitOpError() << "expected '" << name << "_scale' with i8 '" << name << "', got none";
    if (!packed && scale)
      return emitOpError() << "expected no '" << name << "_scale' with float '" << name << "', got " << scale.getType();
  }
  int64_t experts = getRouter().getType().getDimSize(0), topK = getTopK();
  if (topK < 1 || (!ShapedType::isDynamic(experts) && topK > experts))
    return emitOpError() << "expected 1 <= 'top_k' <= " << (ShapedType::isDynamic(experts) ? "E" : Twine(experts).str())
                         << ", got " << topK;
  return verifyActivation(*this);
}
