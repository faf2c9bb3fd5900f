//===- Mla.h - Multi-head Latent Attention without positions --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

/// The cache holds one row per token: the normalised latent, then the shared key part, which is never rotated (and
/// keeps its checkpoint name "rope"). It is paged: cache [P,page,latent+rope], and position p of sequence n is row
/// p % page of page pageTable[n, p / page]; pageTable [N,M]. `lengths` [N] counts the tokens before this call.
namespace k3::ref {

struct MlaShape {
  Index tokens, heads;
  Index latent, rope; ///< kv_lora_rank, qk_rope_head_dim
  Index nope, value;  ///< qk_nope_head_dim, v_head_dim
  Index page;         ///< rows per page
};

/// Which tokens and which cache rows belong together.
struct MlaBatch {
  IntView cu;        ///< [N+1] boundaries of the packed tokens
  IntView lengths;   ///< [N] tokens before this call
  IntView pageTable; ///< [N,M]
};

/// Writes one row per token (k3.mla.append). Spec 2.4. Token t of sequence n goes to position lengths[n] + t - cu[n]:
///   row = rms(kv[:latent]; norm, eps) | kv[latent:] as it is
/// kv [T,latent+rope] (kv_a_proj_with_mqa x), norm [latent].
void mlaAppend(View kv, View norm, double eps, MlaBatch batch, Vec &cache, MlaShape shape);

/// Queries in latent space (k3.mla.absorb). q [T,H,nope+rope] -> [T,H,latent+rope]. kvB [H, nope+value, latent]
/// (kv_b_proj) has per head first the rows K_h that make keys, then those that make values, V_h.
///   out[t,h] = q[t,h,:nope] kvB[h,:nope,:] | q[t,h,nope:]
/// so that out . row = q_nope . (K_h c) + q_rope . r.
Vec mlaAbsorb(View q, View kvB, MlaShape shape);

/// Causal attention over the latent cache (k3.mla.attend). Spec 2.4, absorbed form. Token t of sequence n sees the
/// positions 0 .. lengths[n] + t - cu[n]; the last is its own and must have been appended.
///   o[t,h,:] = sum_s softmax_s( scale * q[t,h] . row_s ) row_s[:latent]
/// q [T,H,latent+rope] -> [T,H,latent].
Vec mlaAttend(View q, View cache, double scale, MlaBatch batch, MlaShape shape);

/// What k3.mla.attend_partial leaves; undefined elements are NaN.
struct AttendParts {
  Vec out;    ///< [N,H,latent] of the sequences that are done
  Vec parts;  ///< [R,2,H,latent]
  Vec states; ///< [R,2,H,2] largest score, sum of exp(score - largest)
};

/// Attention of one row per sequence, by parts (k3.mla.attend_partial): N = T, and row n sees lengths[n] + 1 positions in
/// tiles of `tile`. The tiles of all sequences go to `runs` runs in order, total / runs to each and one more to the first
/// total % runs. Parts of a sequence in several runs: kind 1 where it begins, 0 elsewhere.
///   parts[r,i,h,:] = sum_s exp(score_s - m) row_s[:latent],  states[r,i,h] = m, sum_s exp(score_s - m)
AttendParts mlaAttendPartial(View q, View cache, double scale, IntView lengths, IntView pageTable, Index tile, Index runs,
                             MlaShape shape);

/// Joins the parts of a sequence (k3.mla.attend_merge); `out` [N,H,latent] of the others stays.
void mlaAttendMerge(View parts, View states, IntView lengths, Index tile, Index runs, Vec &out, MlaShape shape);

/// Attention output from latent space (k3.mla.expand): out[t,h,:] = kvB[h,nope:,:] x[t,h,:]. x [T,H,latent] ->
/// [T,H,value].
Vec mlaExpand(View x, View kvB, MlaShape shape);

/// The same attention as published: every cached row is expanded to a key and a value per head. For cross-checks.
///   score = scale * (q_nope . (K_h c_s) + q_rope . r_s);  o = sum_s P (V_h c_s)
/// q [T,H,nope+rope] -> [T,H,value].
Vec mlaAttendExpanded(View q, View kvB, View cache, double scale, MlaBatch batch, MlaShape shape);

} // namespace k3::ref
