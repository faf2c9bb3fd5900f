//===- TypeInference.cpp - result types of the model-level ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/IR/TypeInference.h"
#include "dialects/k3/IR/K3Ops.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Sizes by name: set from attributes or by the first operand that has the dimension, checked by all others. Dynamic
/// sizes agree with everything.
class Shapes {
public:
  explicit Shapes(std::optional<Location> loc) : loc(loc) {}

  void set(StringRef name, int64_t size) { sizes[name] = size; }
  int64_t get(StringRef name) const {
    auto it = sizes.find(name);
    return it == sizes.end() ? ShapedType::kDynamic : it->second;
  }

  /// Checks one operand; a null type is an absent operand. A name "heads+" wants at least that size.
  LogicalResult match(StringRef operand, Type type, ArrayRef<StringRef> names) {
    auto shaped = dyn_cast_if_present<RankedTensorType>(type);
    if (!shaped)
      return success(!type);
    bool fits = shaped.getRank() == static_cast<int64_t>(names.size());
    for (size_t dim = 0; fits && dim < names.size(); ++dim) {
      StringRef name = names[dim];
      bool atLeast = name.consume_back("+");
      int64_t want = get(name), got = shaped.getDimSize(dim);
      if (ShapedType::isDynamic(got))
        continue;
      if (ShapedType::isDynamic(want))
        set(name, got);
      else
        fits = atLeast ? got >= want : got == want;
    }
    if (fits)
      return success();
    std::string want;
    llvm::raw_string_ostream os(want);
    llvm::interleaveComma(names, os, [&](StringRef name) {
      bool atLeast = name.consume_back("+");
      os << name;
      if (!ShapedType::isDynamic(get(name)))
        os << (atLeast ? " >= " : " = ") << get(name);
    });
    return emitOptionalError(loc, "expected '", operand, "' of shape [", want, "], got ", type);
  }

  LogicalResult checkPositive(StringRef attribute, int64_t size) {
    if (size > 0)
      return success();
    return emitOptionalError(loc, "expected positive '", attribute, "', got ", size);
  }

private:
  std::optional<Location> loc;
  llvm::StringMap<int64_t> sizes;
};
} // namespace

FailureOr<RankedTensorType> k3::inferEmbed(std::optional<Location> loc, Type tokens, Type table) {
  Shapes shapes(loc);
  if (failed(shapes.match("tokens", tokens, {"T"})) || failed(shapes.match("table", table, {"vocabulary", "hidden"})))
    return failure();
  return RankedTensorType::get({shapes.get("T"), shapes.get("hidden")}, Float32Type::get(tokens.getContext()));
}

FailureOr<RankedTensorType> k3::inferLmHead(std::optional<Location> loc, Type x, Type norm, Type weight, Type rows) {
  Shapes shapes(loc);
  if (failed(shapes.match("x", x, {"T", "hidden"})) || failed(shapes.match("norm", norm, {"hidden"})) ||
      failed(shapes.match("weight", weight, {"vocabulary", "hidden"})) || failed(shapes.match("rows", rows, {"R"})))
    return failure();
  return RankedTensorType::get({shapes.get(rows ? "R" : "T"), shapes.get("vocabulary")},
                               Float32Type::get(x.getContext()));
}

FailureOr<RankedTensorType> k3::inferMlp(std::optional<Location> loc, Type x, Type gateProj, Type upProj,
                                         Type downProj) {
  Shapes shapes(loc);
  if (failed(shapes.match("x", x, {"T", "hidden"})) ||
      failed(shapes.match("gate_proj", gateProj, {"width", "hidden"})) ||
      failed(shapes.match("up_proj", upProj, {"width", "hidden"})) ||
      failed(shapes.match("down_proj", downProj, {"hidden", "width"})))
    return failure();
  return cast<RankedTensorType>(x);
}

FailureOr<RankedTensorType> k3::inferKdaAttention(std::optional<Location> loc, const KdaAttentionTypes &types) {
  Shapes shapes(loc);
  if (failed(shapes.checkPositive("heads", types.heads)) || failed(shapes.checkPositive("key_dim", types.keyDim)) ||
      failed(shapes.checkPositive("value_dim", types.valueDim)))
    return failure();
  StringRef keys = "heads * key_dim", values = "heads * value_dim";
  shapes.set("heads", types.heads);
  shapes.set("value_dim", types.valueDim);
  shapes.set(keys, types.heads * types.keyDim);
  shapes.set(values, types.heads * types.valueDim);
  if (failed(shapes.match("x", types.x, {"T", "hidden"})) ||
      failed(shapes.match("q_proj", types.qProj, {keys, "hidden"})) ||
      failed(shapes.match("k_proj", types.kProj, {keys, "hidden"})) ||
      failed(shapes.match("v_proj", types.vProj, {values, "hidden"})) ||
      failed(shapes.match("b_proj", types.bProj, {"heads", "hidden"})) ||
      failed(shapes.match("q_conv1d", types.qConv1d, {keys, "taps"})) ||
      failed(shapes.match("k_conv1d", types.kConv1d, {keys, "taps"})) ||
      failed(shapes.match("v_conv1d", types.vConv1d, {values, "taps"})) ||
      failed(shapes.match("f_proj", types.fProj, {keys, "hidden"})) ||
      failed(shapes.match("f_a_proj", types.fAProj, {"gate rank", "hidden"})) ||
      failed(shapes.match("f_b_proj", types.fBProj, {keys, "gate rank"})) ||
      failed(shapes.match("dt_bias", types.dtBias, {keys})) ||
      failed(shapes.match("o_norm", types.oNorm, {"value_dim"})) ||
      failed(shapes.match("o_proj", types.oProj, {"hidden", values})) ||
      failed(shapes.match("a_log", types.aLog, {"heads+"})) ||
      failed(shapes.match("g_proj", types.gProj, {values, "hidden"})) ||
      failed(shapes.match("g_a_proj", types.gAProj, {"output gate rank", "hidden"})) ||
      failed(shapes.match("g_b_proj", types.gBProj, {values, "output gate rank"})))
    return failure();

  auto state = cast<KdaStateType>(types.state);
  if (state.getHeads() != types.heads || state.getKey() != types.keyDim || state.getValue() != types.valueDim)
    return emitOptionalError(loc, "expected 'state' of heads x key x value = ", types.heads, " x ", types.keyDim, " x ",
                             types.valueDim, ", got ", types.state);
  int64_t taps = shapes.get("taps");
  auto checkConvState = [&](StringRef name, Type type, int64_t channels) -> LogicalResult {
    auto conv = cast<ConvStateType>(type);
    if (conv.getChannels() == channels && (ShapedType::isDynamic(taps) || conv.getTaps() == taps - 1))
      return success();
    return emitOptionalError(loc, "expected '", name, "' of channels x (taps - 1) = ", channels, " x ",
                             ShapedType::isDynamic(taps) ? "?" : Twine(taps - 1).str(), ", got ", type);
  };
  if (failed(checkConvState("q_conv_state", types.qConvState, shapes.get(keys))) ||
      failed(checkConvState("k_conv_state", types.kConvState, shapes.get(keys))) ||
      failed(checkConvState("v_conv_state", types.vConvState, shapes.get(values))))
    return failure();
  return cast<RankedTensorType>(types.x);
}

FailureOr<RankedTensorType> k3::inferMlaAttention(std::optional<Location> loc, const MlaAttentionTypes &types) {
  Shapes shapes(loc);
  if (failed(shapes.checkPositive("heads", types.heads)) || failed(shapes.checkPositive("nope_dim", types.nopeDim)) ||
      failed(shapes.checkPositive("rope_dim", types.ropeDim)) ||
      failed(shapes.checkPositive("value_dim", types.valueDim)))
    return failure();
  auto cache = cast<KvCacheType>(types.cache);
  if (cache.getRope() != types.ropeDim)
    return emitOptionalError(loc, "expected 'cache' of rope width ", types.ropeDim, ", got ", types.cache);
  StringRef queries = "heads * (nope_dim + rope_dim)", keysAndValues = "heads * (nope_dim + value_dim)",
            values = "heads * value_dim", row = "latent + rope_dim";
  shapes.set(queries, types.heads * (types.nopeDim + types.ropeDim));
  shapes.set(keysAndValues, types.heads * (types.nopeDim + types.valueDim));
  shapes.set(values, types.heads * types.valueDim);
  shapes.set("latent", cache.getLatent());
  shapes.set(row, cache.getLatent() + types.ropeDim);
  if (failed(shapes.match("x", types.x, {"T", "hidden"})) ||
      failed(shapes.match("kv_a_proj", types.kvAProj, {row, "hidden"})) ||
      failed(shapes.match("kv_a_layernorm", types.kvALayernorm, {"latent"})) ||
      failed(shapes.match("kv_b_proj", types.kvBProj, {keysAndValues, "latent"})) ||
      failed(shapes.match("o_proj", types.oProj, {"hidden", values})) ||
      failed(shapes.match("q_proj", types.qProj, {queries, "hidden"})) ||
      failed(shapes.match("q_a_proj", types.qAProj, {"query rank", "hidden"})) ||
      failed(shapes.match("q_a_layernorm", types.qALayernorm, {"query rank"})) ||
      failed(shapes.match("q_b_proj", types.qBProj, {queries, "query rank"})) ||
      failed(shapes.match("g_proj", types.gProj, {values, "hidden"})))
    return failure();
  return cast<RankedTensorType>(types.x);
}

FailureOr<RankedTensorType> k3::inferLatentMoeBlock(std::optional<Location> loc, const LatentMoeBlockTypes &types) {
  Shapes shapes(loc);
  if (failed(shapes.match("x", types.x, {"T", "hidden"})) ||
      failed(shapes.match("router", types.router, {"E", "hidden"})) || failed(shapes.match("bias", types.bias, {"E"})))
    return failure();
  if (!types.latentDown)
    shapes.set("latent", shapes.get("hidden"));
  if (failed(shapes.match("latent_down", types.latentDown, {"latent", "hidden"})) ||
      failed(shapes.match("latent_norm", types.latentNorm, {"latent"})) ||
      failed(shapes.match("latent_up", types.latentUp, {"hidden", "latent"})) ||
      failed(shapes.match("shared_gate", types.sharedGate, {"shared", "hidden"})) ||
      failed(shapes.match("shared_up", types.sharedUp, {"shared", "hidden"})) ||
      failed(shapes.match("shared_down", types.sharedDown, {"hidden", "shared"})))
    return failure();

  // Packed matrices hold two codes a byte and one scale for 32 inputs; the input width is the other matrix's output.
  bool packed = cast<RankedTensorType>(types.w1).getElementType().isInteger(8);
  auto setPacked = [&](StringRef name, std::string &codes, std::string &scales) -> LogicalResult {
    codes = packed ? (name + " / 2").str() : name.str();
    scales = (name + " / 32").str();
    int64_t size = shapes.get(name);
    if (!packed || ShapedType::isDynamic(size))
      return success();
    if (size % 32)
      return emitOptionalError(loc, "expected MXFP4 ", name, " to be a multiple of 32, got ", size);
    shapes.set(codes, size / 2);
    shapes.set(scales, size / 32);
    return success();
  };
  std::string latentCodes, latentScales, widthCodes, widthScales;
  if (auto w1 = cast<RankedTensorType>(types.w1); w1.getRank() == 3)
    shapes.set("width", w1.getDimSize(1));
  if (auto w2 = cast<RankedTensorType>(types.w2); w2.getRank() == 3 && ShapedType::isDynamic(shapes.get("latent")))
    shapes.set("latent", w2.getDimSize(1));
  if (failed(setPacked("latent", latentCodes, latentScales)) || failed(setPacked("width", widthCodes, widthScales)) ||
      failed(shapes.match("w1", types.w1, {"E", "width", latentCodes})) ||
      failed(shapes.match("w3", types.w3, {"E", "width", latentCodes})) ||
      failed(shapes.match("w2", types.w2, {"E", "latent", widthCodes})) ||
      failed(shapes.match("w1_scale", types.w1Scale, {"E", "width", latentScales})) ||
      failed(shapes.match("w3_scale", types.w3Scale, {"E", "width", latentScales})) ||
      failed(shapes.match("w2_scale", types.w2Scale, {"E", "latent", widthScales})))
    return failure();
  return cast<RankedTensorType>(types.x);
}
