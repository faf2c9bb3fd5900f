//===- Mla.h - Multi-head Latent Attention without positions --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

/// The cache holds one row per token: the normalised latent, then the shared key part, which is never rotated (and
/// keeps its checkpoint name "rope"). cache [N,capacity,latent+rope]; sequence n uses its first rows only.
namespace k3::ref {

struct MlaShape {
  Index tokens, heads;
  Index latent, rope; ///< kv_lora_rank, qk_rope_head_dim
  Index capacity;     ///< rows of cache per sequence
};

/// Writes one row per token behind the `length` [N] rows each sequence already holds. Spec 2.4.
///   row = rms(kv[:latent]; norm, eps) | kv[latent:] as it is
/// kv [T,latent+rope] (kv_a_proj_with_mqa x), norm [latent], cu [N+1]; length[n] + new rows <= capacity.
void mlaAppend(View kv, View norm, double eps, IntView cu, IntView length, Vec &cache, MlaShape shape);

/// Causal attention in the latent space ("absorbed"). Spec 2.4.
///   o[t,h,:] = sum_s softmax_s( scale * (qAbs[t,h].c_s + qRope[t,h].r_s) ) c_s
/// qAbs [T,H,latent], qRope [T,H,rope] -> [T,H,latent]. context [N]: rows of cache in use, this call's own tokens
/// included and last; token j of the L tokens of sequence n sees rows 0 .. context[n] - L + j. A token that sees no row
/// gives zeros.
Vec mlaAttend(View qAbs, View qRope, View cache, IntView cu, IntView context, double scale, MlaShape shape);

/// wKvB [H, nope+value, latent] per head: first the rows that make keys, then those that make values.
/// out[t,h,:] = qNope[t,h,:] K_h, so that out . c = qNope . (K_h c). qNope [T,H,nope] -> [T,H,latent].
Vec mlaAbsorbQuery(View qNope, View wKvB, Index nope, Index value, MlaShape shape);
/// out[t,h,:] = V_h o[t,h,:]. o [T,H,latent] -> [T,H,value].
Vec mlaExpandValue(View o, View wKvB, Index nope, Index value, MlaShape shape);

/// The same attention as published: every cached row is expanded to a key and a value per head. For cross-checks.
///   score = scale * (qNope . (K_h c_s) + qRope . r_s);  o = sum_s P (V_h c_s)
/// qNope [T,H,nope], qRope [T,H,rope] -> [T,H,value]; otherwise as mlaAttend.
Vec mlaAttendExpanded(View qNope, View qRope, View wKvB, View cache, IntView cu, IntView context, double scale,
                      Index nope, Index value, MlaShape shape);

} // namespace k3::ref
