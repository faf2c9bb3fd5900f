//===- LatentMoe.cpp - Router, grouped experts, LatentMoE block -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/LatentMoe.h"

#include <limits>

using namespace k3::ref;

Routing k3::ref::route(View logits, View bias, Index tokens, RouteOptions o) {
  require(o.topK >= 1 && o.topK <= o.experts, "route: topK must be between 1 and the number of experts");
  require(logits.size() == tokens * o.experts, "route: logits are not [T, E]");
  require(bias.empty() || bias.size() == o.experts, "route: bias is not [E]");
  Routing out;
  for (Index t = 0; t < tokens; ++t) {
    Vec score(o.experts), biased(o.experts);
    for (Index e = 0; e < o.experts; ++e) {
      score[e] = sigmoid(logits[t * o.experts + e]);
      biased[e] = score[e] + (bias.empty() ? 0.0 : bias[e]);
    }
    std::vector<bool> taken(o.experts);
    auto best = [&] { // best expert not taken yet, -1 if none; strictly greater, so the lower id wins a tie
      Index top = -1;
      for (Index e = 0; e < o.experts; ++e)
        if (!taken[e] && (top < 0 || biased[e] > biased[top]))
          top = e;
      return top;
    };
    double sum = 0, last = 0;
    for (Index i = 0; i < o.topK; ++i) {
      Index e = best();
      taken[e] = true;
      out.ids.push_back(static_cast<std::int32_t>(e));
      out.weights.push_back(score[e]);
      sum += score[e];
      last = biased[e];
    }
    Index next = best();
    out.margin.push_back(next < 0 ? std::numeric_limits<double>::infinity() : last - biased[next]);
    for (Index i = 0; i < o.topK; ++i) {
      double &w = out.weights[t * o.topK + i];
      w = (o.renormalize ? w / (sum + 1e-20) : w) * o.scale;
    }
  }
  return out;
}

MoePlan k3::ref::planExperts(IntView ids, Index experts) {
  MoePlan plan;
  plan.offsets.push_back(0);
  for (Index e = 0; e < experts; ++e) {
    for (Index slot = 0; slot < ids.size(); ++slot)
      if (ids[slot] == e)
        plan.perm.push_back(static_cast<std::int32_t>(slot));
    plan.offsets.push_back(static_cast<std::int32_t>(plan.perm.size()));
  }
  require(static_cast<Index>(plan.perm.size()) == ids.size(), "planExperts: expert id out of range");
  return plan;
}

Vec k3::ref::groupedContract(View x, const MoePlan &plan, const std::vector<View> &w, Index topK, Index in, Index out) {
  Index slots = static_cast<Index>(plan.perm.size());
  require(plan.offsets.size() == w.size() + 1, "groupedContract: the plan and the weights differ in experts");
  require(topK >= 1 && slots % topK == 0, "groupedContract: the plan is not [T, topK]");
  bool perSlot = x.size() == slots * in;
  require(perSlot || x.size() == slots / topK * in, "groupedContract: x is neither [T, in] nor [T, topK, in]");
  Vec y(slots * out);
  for (std::size_t e = 0; e < w.size(); ++e)
    for (Index r = plan.offsets[e]; r < plan.offsets[e + 1]; ++r) {
      Index slot = plan.perm[r];
      Vec product = linear(x.slice((perSlot ? slot : slot / topK) * in, in), w[e], 1, in, out);
      for (Index j = 0; j < out; ++j)
        y[slot * out + j] = product[j];
    }
  return y;
}

ExpertRows k3::ref::expertMlp(View x, const MoePlan &plan, const std::vector<View> &w1, const std::vector<View> &w3,
                              const std::vector<View> &w2, Index topK, Index dim, Index width, Activation activation) {
  ExpertRows rows;
  rows.inner = glu(groupedContract(x, plan, w1, topK, dim, width), groupedContract(x, plan, w3, topK, dim, width),
                   activation);
  rows.out = groupedContract(rows.inner, plan, w2, topK, width, dim);
  return rows;
}

Vec k3::ref::combine(View y, View weights, Index tokens, Index topK, Index dim) {
  Index slots = tokens * topK;
  require(weights.size() == slots && y.size() == slots * dim, "combine: sizes differ");
  Vec u(tokens * dim);
  for (Index slot = 0; slot < slots; ++slot)
    for (Index j = 0; j < dim; ++j)
      u[slot / topK * dim + j] += weights[slot] * y[slot * dim + j];
  return u;
}

Vec k3::ref::moeBlock(View x, const MoeWeights &w, MoeShape s, RouteOptions o, Activation activation, double eps,
                      Routing *routing) {
  require(w.down.empty() == w.up.empty(), "moeBlock: latent down and up projections come together");
  require(!w.down.empty() || s.latent == s.hidden, "moeBlock: without latent projections latent must equal hidden");
  Routing chosen = route(linear(x, w.router, s.tokens, s.hidden, o.experts), w.bias, s.tokens, o);
  MoePlan plan = planExperts(chosen.ids, o.experts);

  Vec z = w.down.empty() ? x.toVec() : linear(x, w.down, s.tokens, s.hidden, s.latent);
  Vec y = expertMlp(z, plan, w.w1, w.w3, w.w2, o.topK, s.latent, s.expertWidth, activation).out;
  Vec out = combine(y, chosen.weights, s.tokens, o.topK, s.latent);

  if (!w.norm.empty())
    out = rmsNorm(out, w.norm, s.tokens, s.latent, eps);
  if (!w.up.empty())
    out = linear(out, w.up, s.tokens, s.latent, s.hidden);
  if (s.sharedWidth > 0)
    out = add(out, mlp(x, w.sharedGate, w.sharedUp, w.sharedDown, activation, s.tokens, s.hidden, s.sharedWidth));
  if (routing)
    *routing = chosen;
  return out;
}
