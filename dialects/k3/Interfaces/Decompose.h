//===- Decompose.h - structured ops on tensors as upstream ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_INTERFACES_DECOMPOSE_H
#define K3_INTERFACES_DECOMPOSE_H

#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/Interfaces/TensorBuilder.h"

namespace mlir::k3 {

/// One overload per structured op: emits linalg, scf, tensor, arith and math ops that compute the op's results and
/// returns them. All operands are tensors. Also right for a tile of an op, where sizes are dynamic.
using Decomposed = SmallVector<Value>;

Decomposed decompose(GatherRowsOp op, TensorBuilder &b);
Decomposed decompose(LinearOp op, TensorBuilder &b);
Decomposed decompose(MxContractOp op, TensorBuilder &b);
Decomposed decompose(RmsNormOp op, TensorBuilder &b);
Decomposed decompose(GluOp op, TensorBuilder &b);
Decomposed decompose(SigmoidGateOp op, TensorBuilder &b);

Decomposed decompose(KdaShortConvOp op, TensorBuilder &b);
Decomposed decompose(KdaGateOp op, TensorBuilder &b);
Decomposed decompose(KdaScanOp op, TensorBuilder &b);
Decomposed decompose(KdaRecurrentStepOp op, TensorBuilder &b);
Decomposed decompose(KdaDecodeStepOp op, TensorBuilder &b);
Decomposed decompose(KdaChunkPrepareOp op, TensorBuilder &b);
Decomposed decompose(KdaChunkScanOp op, TensorBuilder &b);
Decomposed decompose(KdaGatedNormOp op, TensorBuilder &b);

Decomposed decompose(AttnResMixOp op, TensorBuilder &b);
Decomposed decompose(AttnResAccumulateOp op, TensorBuilder &b);

Decomposed decompose(MoeRouteOp op, TensorBuilder &b);
Decomposed decompose(MoePlanOp op, TensorBuilder &b);
Decomposed decompose(MoeGroupedContractOp op, TensorBuilder &b);
Decomposed decompose(MoeExpertMlpOp op, TensorBuilder &b);
Decomposed decompose(MoeCombineOp op, TensorBuilder &b);

Decomposed decompose(MlaAppendOp op, TensorBuilder &b);
Decomposed decompose(MlaAbsorbOp op, TensorBuilder &b);
Decomposed decompose(MlaAttendOp op, TensorBuilder &b);
Decomposed decompose(MlaAttendPartialOp op, TensorBuilder &b);
Decomposed decompose(MlaAttendMergeOp op, TensorBuilder &b);
Decomposed decompose(MlaExpandOp op, TensorBuilder &b);

Decomposed decompose(SampleOp op, TensorBuilder &b);

//===--- shared pieces ---===//

/// rsqrt(mean(row^2) + eps) of a one-dimensional tensor, as a scalar.
Value emitRmsFactor(TensorBuilder &b, Value row, double eps);

/// The log-decay of a logit with its bias; `rate` is exp(a_log).
Value emitGate(TensorBuilder &b, GateKind kind, Value rate, double bound, Value logit);

/// The gated unit on scalars; beta and linearBeta are read by situ only.
Value emitGlu(TensorBuilder &b, Activation activation, double beta, double linearBeta, Value gate, Value up);

/// Two MXFP4 weights of a byte, without scale: {low nibble, high nibble}, f32.
std::pair<Value, Value> emitE2M1Pair(TensorBuilder &b, Value byte);
/// 2^(code - 127) of an E8M0 code: 0 is 2^-127 (subnormal in f32), 255 is NaN.
Value emitE8M0(TensorBuilder &b, Value code);

/// x [K] as two tensors [K / 32, 16]: the elements with even and with odd index, the order in which packed weights meet
/// them. x is widened.
std::pair<Value, Value> splitEvenOdd(TensorBuilder &b, Value x);

/// `out` [n] (f32) plus the product of x with a weight [n, k], in stored form; `scale` is null for float weights. For
/// packed weights x comes as splitEvenOdd gave it, else `odd` is null.
Value emitMatVec(TensorBuilder &b, Value x, Value odd, Value weight, Value scale, Value out);

} // namespace mlir::k3

#endif // K3_INTERFACES_DECOMPOSE_H
