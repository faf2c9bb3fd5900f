//===- TypeInference.h - result types of the model-level ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Free functions from operand types to result types, shared by builders, verifiers and the importer. Each checks every
// operand's shape against the others and the given sizes, and reports what it wanted and what it got at `loc` (silent
// without one). Absent optional operands are null types.
//
//===----------------------------------------------------------------------===//
#ifndef K3_IR_TYPEINFERENCE_H
#define K3_IR_TYPEINFERENCE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Location.h"

namespace mlir::k3 {

/// tokens [T], table [vocabulary, hidden] -> [T, hidden] f32.
FailureOr<RankedTensorType> inferEmbed(std::optional<Location> loc, Type tokens, Type table);

/// x [T, hidden], norm [hidden], weight [vocabulary, hidden], rows [R] or null -> [R or T, vocabulary] f32.
FailureOr<RankedTensorType> inferLmHead(std::optional<Location> loc, Type x, Type norm, Type weight, Type rows);

/// x [T, hidden], gate and up [width, hidden], down [hidden, width] -> type of x.
FailureOr<RankedTensorType> inferMlp(std::optional<Location> loc, Type x, Type gateProj, Type upProj, Type downProj);

/// Operand types of k3.kda.attention and its sizes, named as in the op.
struct KdaAttentionTypes {
  Type x, qConvState, kConvState, vConvState, state;
  Type qProj, kProj, vProj, bProj, qConv1d, kConv1d, vConv1d, dtBias, oNorm, oProj;
  Type fProj, fAProj, fBProj, aLog, gProj, gAProj, gBProj;
  int64_t heads, keyDim, valueDim;
};
/// -> type of x; the states keep their types.
FailureOr<RankedTensorType> inferKdaAttention(std::optional<Location> loc, const KdaAttentionTypes &types);

/// Operand types of k3.mla.attention and its sizes, named as in the op.
struct MlaAttentionTypes {
  Type x, cache, kvAProj, kvALayernorm, kvBProj, oProj;
  Type qProj, qAProj, qALayernorm, qBProj, gProj;
  int64_t heads, nopeDim, ropeDim, valueDim;
};
/// -> type of x; the cache keeps its type.
FailureOr<RankedTensorType> inferMlaAttention(std::optional<Location> loc, const MlaAttentionTypes &types);

/// Operand types of k3.latent_moe.block, named as in the op.
struct LatentMoeBlockTypes {
  Type x, router, bias, w1, w3, w2;
  Type w1Scale, w3Scale, w2Scale, latentDown, latentNorm, latentUp, sharedGate, sharedUp, sharedDown;
};
/// -> type of x.
FailureOr<RankedTensorType> inferLatentMoeBlock(std::optional<Location> loc, const LatentMoeBlockTypes &types);

} // namespace mlir::k3

#endif // K3_IR_TYPEINFERENCE_H
