//===- AttnRes.h - Block Attention Residuals ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

namespace k3::ref {

/// The sources a mix attends over, per token: `count` snapshots of `stack` [R,T,d] (slots 0..count-1, R >= count) and
/// then the running partial sum `partial` [T,d], or nothing more if that is empty. At least one source in all.
struct MixSources {
  View stack;
  Index count;
  View partial;
  Index tokens, dim;
};

/// Softmax weights over the sources, [T,sources] with sources = count + (partial ? 1 : 0). Spec 2.2:
///   l_s = rsqrt(mean(v_s^2) + eps) * sum_j v_s[j] wNorm[j] wProj[j];  a = softmax_s(l)
/// wNorm [d] is the key norm's gain, wProj [d] the query. There is no 1/sqrt(d).
Vec attnResWeights(MixSources sources, View wNorm, View wProj, double eps);

/// out[t,:] = sum_s a[t,s] * v_s[t,:] over the raw (not normalised) sources -> [T,d]. Spec 2.2.
Vec attnResMix(MixSources sources, View wNorm, View wProj, double eps);

} // namespace k3::ref
