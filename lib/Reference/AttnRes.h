//===- AttnRes.h - Block Attention Residuals ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

/// The residual is a stream of slots [R,T,d]: the snapshots and, last, the running partial sum. Slots 0 .. sources-1
/// take part in a mix; 1 <= sources <= R.
namespace k3::ref {

struct StreamShape {
  Index tokens, dim;
};

/// Softmax weights over the sources, [T,sources]. Spec 2.2:
///   l_s = rsqrt(mean(v_s^2) + eps) * sum_j v_s[j] wNorm[j] wProj[j];  a = softmax_s(l)
/// wNorm [d] is the key norm's gain, wProj [d] the query. There is no 1/sqrt(d).
Vec attnResWeights(View stream, Index sources, View wNorm, View wProj, double eps, StreamShape shape);

/// out[t,:] = sum_s a[t,s] * v_s[t,:] over the raw (not normalised) sources -> [T,d] (k3.attn_res.mix without the norm
/// that may follow). Spec 2.2.
Vec attnResMix(View stream, Index sources, View wNorm, View wProj, double eps, StreamShape shape);

/// stream[slot] += delta, or = delta with `init`: the first sublayer after a snapshot (k3.attn_res.accumulate).
/// delta [T,d]; the slot exists.
void attnResAccumulate(Vec &stream, Index slot, View delta, bool init, StreamShape shape);

} // namespace k3::ref
