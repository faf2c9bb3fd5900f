//===- ModelReference.cpp - Whole-model forward pass ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/ModelReference.h"
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Mla.h"

#include <cmath>

using namespace k3::ref;

using Ints = std::vector<std::int32_t>;

State k3::ref::initialState(const Config &c) {
  State state;
  state.layers.resize(c.layers);
  for (Index layer : c.kdaLayers) {
    LayerState &s = state.layers[layer];
    s.kda.assign(c.kdaHeads * c.kdaDim * c.kdaDim, 0);
    s.qConv = s.kConv = s.vConv = Vec((c.taps - 1) * c.kdaHeads * c.kdaDim);
  }
  return state;
}

static Vec project(View x, const Projection &p, Index rows, Index in, Index out) {
  if (!p.full.empty())
    return linear(x, p.full, rows, in, out);
  Index rank = p.a.size() / in;
  return linear(linear(x, p.a, rows, in, rank), p.b, rows, rank, out);
}

Vec k3::ref::kdaAttention(View x, const Config &c, const KdaWeights &w, LayerState &state) {
  Index tokens = x.size() / c.hidden, H = c.kdaHeads, D = c.kdaDim, P = H * D;
  Ints cu{0, static_cast<std::int32_t>(tokens)};
  Vec q = shortConv(linear(x, w.q, tokens, c.hidden, P), w.qConv, cu, {}, state.qConv, P, c.taps);
  Vec k = shortConv(linear(x, w.k, tokens, c.hidden, P), w.kConv, cu, {}, state.kConv, P, c.taps);
  Vec v = shortConv(linear(x, w.v, tokens, c.hidden, P), w.vConv, cu, {}, state.vConv, P, c.taps);
  Vec g = kdaGate(project(x, w.forget, tokens, c.hidden, P), w.aLog, w.dtBias,
                  c.gateLowerBound ? GateKind::BoundedSigmoid : GateKind::Softplus, c.gateLowerBound.value_or(0),
                  tokens, H, D);
  Vec beta = linear(x, w.beta, tokens, c.hidden, H);

  ScanOptions options;
  options.l2NormQK = true;
  options.scale = 1 / std::sqrt(static_cast<double>(D));
  Vec o = kdaScan(q, k, v, g, beta, cu, {}, state.kda, {tokens, H, D, D}, options);
  Vec gate = project(x, w.outputGate, tokens, c.hidden, P);
  return linear(kdaGatedNorm(o, gate, w.oNorm, tokens * H, D, c.eps), w.o, tokens, P, c.hidden);
}

Vec k3::ref::mlaAttention(View x, const Config &c, const MlaWeights &w, LayerState &state, Index length) {
  Index tokens = x.size() / c.hidden, H = c.mlaHeads, perHead = c.nope + c.rope;
  Vec q;
  if (w.qA.empty()) {
    q = linear(x, w.q, tokens, c.hidden, H * perHead);
  } else {
    Vec latent = rmsNorm(linear(x, w.qA, tokens, c.hidden, c.qLora), w.qANorm, tokens, c.qLora, c.latentEps);
    q = linear(latent, w.q, tokens, c.qLora, H * perHead);
  }

  // One page that grows with the sequence.
  MlaShape shape{tokens, H, c.kvLora, c.rope, c.nope, c.value, length + tokens};
  Ints cu{0, static_cast<std::int32_t>(tokens)}, lengths{static_cast<std::int32_t>(length)}, pages{0};
  MlaBatch batch{cu, lengths, pages};
  state.cache.resize(shape.page * (c.kvLora + c.rope));
  mlaAppend(linear(x, w.kvA, tokens, c.hidden, c.kvLora + c.rope), w.kvANorm, c.latentEps, batch, state.cache, shape);
  Vec latent =
      mlaAttend(mlaAbsorb(q, w.kvB, shape), state.cache, 1 / std::sqrt(static_cast<double>(perHead)), batch, shape);
  Vec o = mlaExpand(latent, w.kvB, shape);
  if (!w.outputGate.empty())
    o = sigmoidGate(o, linear(x, w.outputGate, tokens, c.hidden, H * c.value));
  return linear(o, w.o, tokens, H * c.value, c.hidden);
}

/// Appends values to a trace that may be absent.
namespace {
struct Recorder {
  Trace *trace;
  std::string prefix;

  void operator()(const char *name, const Vec &values) const {
    if (trace) {
      Vec &all = trace->values[prefix + name];
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  void operator()(const char *name, const Ints &values) const {
    if (trace) {
      Ints &all = trace->ids[prefix + name];
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  void operator()(const char *name, Index value) const { (*this)(name, Ints{static_cast<std::int32_t>(value)}); }
};
} // namespace

static Vec feedForward(View y, const Config &c, const LayerWeights &w, Index index, const Recorder &record) {
  Index tokens = y.size() / c.hidden;
  if (index < c.denseLayers)
    return mlp(y, w.mlp.gate, w.mlp.up, w.mlp.down, c.activation, tokens, c.hidden, c.denseWidth);
  MoeShape shape{tokens, c.hidden, c.latent ? c.latent : c.hidden, c.expertWidth, c.sharedWidth};
  Routing routing;
  Vec out = moeBlock(y, w.moe, shape, c.router, c.activation, c.eps, &routing);
  record("router_ids", routing.ids);
  record("router_weights", routing.weights);
  record("router_margin", routing.margin);
  return out;
}

void k3::ref::decoderLayer(const Config &c, const LayerWeights &w, Index index, Residual &residual, LayerState &state,
                           Index length, Index tokens, Trace *trace) {
  Recorder record{trace, "layers." + std::to_string(index) + "."};
  bool mixes = c.attnResBlock > 0;
  StreamShape shape{tokens, c.hidden};
  auto read = [&](View wNorm, View wProj) { // what the next sublayer sees, before its norm
    return mixes ? attnResMix(residual.stream, residual.sources, wNorm, wProj, c.eps, shape) : residual.stream;
  };

  Vec x = read(w.attnResNorm, w.attnResProj);
  record("attn_in", x);
  record("attn_sources", residual.sources);
  Vec normed = rmsNorm(x, w.inputNorm, tokens, c.hidden, c.eps);
  Vec attn =
      c.kdaLayers.count(index) ? kdaAttention(normed, c, w.kda, state) : mlaAttention(normed, c, w.mla, state, length);
  record("attn_out", attn);
  bool startsBlock = mixes && index % c.attnResBlock == 0;
  if (startsBlock) // the sum so far stays as a snapshot, a new one begins
    residual.stream.resize(++residual.sources * tokens * c.hidden);
  Index running = residual.sources - 1;
  attnResAccumulate(residual.stream, running, attn, /*init=*/startsBlock, shape);

  Vec y = read(w.mlpResNorm, w.mlpResProj);
  record("mlp_in", y);
  record("mlp_sources", residual.sources);
  Vec ffn = feedForward(rmsNorm(y, w.postNorm, tokens, c.hidden, c.eps), c, w, index, record);
  record("mlp_out", ffn);
  attnResAccumulate(residual.stream, running, ffn, /*init=*/false, shape);
  record("out", View(residual.stream).slice(running * tokens * c.hidden, tokens * c.hidden).toVec());
}

Vec k3::ref::forward(const Config &c, const ModelWeights &w, IntView tokens, State &state, Trace *trace) {
  Recorder record{trace, ""};
  Index T = tokens.size();
  Residual residual{embed(w.embed, tokens, c.hidden), 1};
  record("embed", residual.stream);
  for (Index layer = 0; layer < c.layers; ++layer)
    decoderLayer(c, w.layers[layer], layer, residual, state.layers[layer], state.length, T, trace);
  state.length += T;

  Vec h = c.attnResBlock > 0
              ? attnResMix(residual.stream, residual.sources, w.outputResNorm, w.outputResProj, c.eps, {T, c.hidden})
              : residual.stream;
  record("final_in", h);
  record("final_sources", residual.sources);
  h = rmsNorm(h, w.norm, T, c.hidden, c.eps);
  record("final_norm", h);
  return linear(h, w.lmHead, T, c.hidden, c.vocab);
}
