//===- ModelReference.h - Whole-model forward pass ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/Common.h"
#include "lib/Reference/Kda.h"
#include "lib/Reference/LatentMoe.h"

#include <map>
#include <optional>
#include <set>
#include <string>

/// Kimi K3 and Kimi-Linear as one parametrised model, one sequence, explicit state. Spec 2.
namespace k3::ref {

struct Config {
  Index layers = 0, hidden = 0, vocab = 0;
  double eps = 1e-5;       ///< every RMSNorm but the two latent ones
  double latentEps = 1e-6; ///< MLA's q_a_layernorm and kv_a_layernorm (spec 2.0)
  Activation activation;
  Index attnResBlock = 0; ///< decoder layers per AttnRes block; 0 = plain residual

  std::set<Index> kdaLayers; ///< 0-based; all other layers are MLA
  Index kdaHeads = 0, kdaDim = 0, taps = 0;
  std::optional<double> gateLowerBound; ///< absent = softplus gate

  Index mlaHeads = 0, qLora = 0 /* 0 = direct q_proj */, kvLora = 0, nope = 0, rope = 0, value = 0;

  Index denseLayers = 0, denseWidth = 0; ///< layers below denseLayers have a dense MLP
  RouteOptions router{0, 0};
  Index latent = 0; ///< 0 = experts work at full width
  Index expertWidth = 0, sharedWidth = 0;
};

/// x W^T, or (x A^T) B^T where `full` is empty. A [rank,in], B [out,rank].
struct Projection {
  View full, a, b;
};

struct KdaWeights {
  View q, k, v, o;               ///< [P,d] thrice, [d,P]; P = heads * dim
  View qConv, kConv, vConv;      ///< [P,taps]
  Projection forget, outputGate; ///< d -> P
  View beta;                     ///< [H,d]
  View aLog, dtBias, oNorm;      ///< [>= H] or empty, [P], [dim]
};

struct MlaWeights {
  View qA, qANorm;        ///< [qLora,d], [qLora]; empty without q-LoRA
  View q;                 ///< q_b_proj [H*(nope+rope),qLora], or q_proj [..,d]
  View kvA, kvANorm, kvB; ///< [kvLora+rope,d], [kvLora], [H*(nope+value),kvLora]
  View outputGate;        ///< [H*value,d] or empty
  View o;                 ///< [d,H*value]
};

struct MlpWeights {
  View gate, up, down;
};

/// Only the members of the layer's kind are filled.
struct LayerWeights {
  View inputNorm, postNorm;                              ///< [d]
  View attnResNorm, attnResProj, mlpResNorm, mlpResProj; ///< [d], with AttnRes only
  KdaWeights kda;
  MlaWeights mla;
  MlpWeights mlp;
  MoeWeights moe;
};

struct ModelWeights {
  View embed, norm, lmHead;          ///< [vocab,d], [d], [vocab,d]
  View outputResNorm, outputResProj; ///< [d], with AttnRes only
  std::vector<LayerWeights> layers;
};

/// What one layer carries from token to token.
struct LayerState {
  Vec kda;                 ///< [H,V,K], value as row
  Vec qConv, kConv, vConv; ///< [taps-1,P] raw projections, oldest first
  Vec cache;               ///< [length,kvLora+rope] latent after its norm, then the raw shared key part
};

struct State {
  std::vector<LayerState> layers;
  Index length = 0; ///< tokens seen
};

/// State before the first token.
State initialState(const Config &config);

/// Values seen on the way, appended token by token over calls. Names are those of the golden files: embed,
/// layers.L.{attn_in,attn_out,mlp_in,mlp_out,out,router_weights,router_margin}, final_in, final_norm; and as integers
/// layers.L.router_ids. layers.L.{attn_sources,mlp_sources} and final_sources count each mix's sources, once a call.
struct Trace {
  std::map<std::string, Vec> values;
  std::map<std::string, std::vector<std::int32_t>> ids;
};

/// Activations between layers.
struct Residual {
  Vec stream;    ///< [sources,T,d] snapshots, then the running sum of the current block (or the plain residual)
  Index sources; ///< 1 before the first layer
};

/// x [T,d], already normed -> [T,d].
Vec kdaAttention(View x, const Config &config, const KdaWeights &weights, LayerState &state);
/// x [T,d], already normed -> [T,d]; `length` tokens are in the cache before the call.
Vec mlaAttention(View x, const Config &config, const MlaWeights &weights, LayerState &state, Index length);

/// Decoder layer `index` on T tokens (spec 2.2, steps 1 to 7; without AttnRes h += Attn, h += FFN).
void decoderLayer(const Config &config, const LayerWeights &weights, Index index, Residual &residual, LayerState &state,
                  Index length, Index tokens, Trace *trace = nullptr);

/// Runs `tokens` behind those `state` has seen and returns their logits [T,vocab]. Any split into calls is the same
/// function.
Vec forward(const Config &config, const ModelWeights &weights, IntView tokens, State &state, Trace *trace = nullptr);

/// A model directory in the layout of the published checkpoints, with the storage behind its weights.
struct Checkpoint {
  Config config;
  ModelWeights weights;
  std::map<std::string, std::vector<float>> storage; ///< every stored value is exact in float
};

/// Reads DIR/config.json and the shards named by DIR/model.safetensors.index.json. Returns an empty string, or one line
/// saying what is wrong.
std::string readCheckpoint(const std::string &directory, Checkpoint &checkpoint);

} // namespace k3::ref
