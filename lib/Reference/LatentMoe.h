//===- LatentMoe.h - Router, grouped experts, LatentMoE block -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/Common.h"

/// A slot is one (token, choice) pair, numbered t * topK + i; there are T * topK of them.
namespace k3::ref {

struct Routing {
  std::vector<std::int32_t> ids; ///< [T,topK] experts by falling biased score; the lower id first where scores tie
  Vec weights;                   ///< [T,topK]
  Vec margin;                    ///< [T] biased score of the last chosen minus the best not chosen; infinite if none
};

struct RouteOptions {
  Index experts, topK;
  bool renormalize = true;
  double scale = 1.0; ///< routed_scaling_factor
};

/// k3.latent_moe.route. Spec 2.5, steps 1 to 3. logits [T,E] finite, bias [E] or empty (0); 1 <= topK <= E.
///   s = sigmoid(logits); choose the topK largest s + bias; weight = s / (sum of chosen s + 1e-20) * scale
/// The bias only chooses. Without renormalisation the weight is s * scale.
Routing route(View logits, View bias, Index tokens, RouteOptions options);

/// Slots grouped by expert (k3.latent_moe.plan): perm[offsets[e] .. offsets[e+1]) are expert e's slots in rising order.
struct MoePlan {
  std::vector<std::int32_t> offsets; ///< [E+1]
  std::vector<std::int32_t> perm;    ///< [T*topK]
};
MoePlan planExperts(IntView ids, Index experts);

/// Every slot through its expert's matrix (k3.latent_moe.grouped_contract): y[s,:] = x_s w[e]^T for the slots s of e.
/// w has E views [out,in]; experts without slots are not read. x is [T,in] (x_s is the row of the slot's token) or
/// [T,topK,in] (a row per slot). Returns y [T,topK,out].
Vec groupedContract(View x, const MoePlan &plan, const std::vector<View> &w, Index topK, Index in, Index out);

/// Every slot through its expert's gated unit and down projection (k3.latent_moe.expert_mlp): inner[s,:] =
/// act(x_s w1[e]^T, x_s w3[e]^T), out[s,:] = inner[s,:] w2[e]^T. x [T,dim]; w1 and w3 have E views [width,dim], w2 has E
/// views [dim,width].
struct ExpertRows {
  Vec inner; ///< [T,topK,width]
  Vec out;   ///< [T,topK,dim]
};
ExpertRows expertMlp(View x, const MoePlan &plan, const std::vector<View> &w1, const std::vector<View> &w3,
                     const std::vector<View> &w2, Index topK, Index dim, Index width, Activation activation);

/// u[t,:] = sum_i weights[t,i] * y[t,i,:], i rising (k3.latent_moe.combine). y [T,topK,dim] -> [T,dim].
Vec combine(View y, View weights, Index tokens, Index topK, Index dim);

struct MoeShape {
  Index tokens, hidden;
  Index latent;      ///< width the experts work in; = hidden if there is no latent projection
  Index expertWidth; ///< inner width of a routed expert
  Index sharedWidth; ///< inner width of the fused shared expert, 0 = none
};

struct MoeWeights {
  View router;                  ///< [E,hidden]
  View bias;                    ///< [E] e_score_correction_bias
  std::vector<View> w1, w3, w2; ///< E each: gate and up [expertWidth,latent], down [latent,expertWidth]
  View down, up;                ///< [latent,hidden] and [hidden,latent], both empty for full-width experts
  View norm;                    ///< [latent] on the aggregate before `up`, or empty
  View sharedGate, sharedUp;    ///< [sharedWidth,hidden]
  View sharedDown;              ///< [hidden,sharedWidth]
};

/// Stable LatentMoE, or the plain full-width mixture where `down` and `up` are empty. Spec 2.5, steps 1 to 7.
/// x [T,hidden] -> [T,hidden]. The router and the shared expert read x at full width. `routing`, if given, receives the
/// choices.
Vec moeBlock(View x, const MoeWeights &weights, MoeShape shape, RouteOptions route, Activation activation, double eps,
             Routing *routing = nullptr);

} // namespace k3::ref
