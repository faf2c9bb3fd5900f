//===- FixturesTest.cpp - Against values of another implementation --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "TestSupport.h"
#include "lib/Reference/AttnRes.h"
#include "lib/Reference/Kda.h"
#include "lib/Reference/ModelReference.h"
#include "lib/Reference/MxFp4.h"
#include "test/unit/Support/Fixtures.h"

using namespace k3::ref;
using namespace k3::ref::test;
using k3::test::slotMajor;

using Ints = std::vector<std::int32_t>;

namespace {
class Fixtures : public k3::test::FixtureTest {};
} // namespace

TEST_F(Fixtures, RmsNorm) {
  OPEN_OR_SKIP("rmsnorm");
  Vec y = rmsNorm(values("in"), values("weight"), dim("in", 0), dim("in", 1), number("eps"));
  EXPECT_LT(maxDifference(y, values("out")), 1e-6);
}

TEST_F(Fixtures, SituGlu) {
  OPEN_OR_SKIP("situ_glu");
  Vec in = values("in"), gate, up;
  Index rows = dim("in", 0), width = dim("in", 1);
  for (Index r = 0; r < rows; ++r) { // gate is the first half of a row
    gate.insert(gate.end(), in.begin() + r * width, in.begin() + r * width + width / 2);
    up.insert(up.end(), in.begin() + r * width + width / 2, in.begin() + (r + 1) * width);
  }
  Vec y = glu(gate, up, {Activation::Situ, number("beta"), number("linear_beta")});
  EXPECT_LT(maxDifference(y, values("out")), 1e-5);
}

TEST_F(Fixtures, ShortConv) {
  OPEN_OR_SKIP("shortconv");
  Index C = integer("channels"), taps = integer("kernel"), T = dim("in", 1);
  Vec state((taps - 1) * C), w = values("weight");
  Vec y = shortConv(values("in"), w, Ints{0, static_cast<int>(T)}, {}, state, C, taps);
  EXPECT_LT(maxDifference(y, values("out")), 1e-6);
  Vec channelMajor = values("state_after"); // [C, taps-1] there
  for (Index j = 0; j < taps - 1; ++j)
    for (Index c = 0; c < C; ++c)
      EXPECT_NEAR(state[j * C + c], channelMajor[c * (taps - 1) + j], 1e-6);
  EXPECT_LT(maxDifference(shortConv(values("in_next"), w, Ints{0, 1}, {}, state, C, taps), values("out_next")), 1e-6);
}

TEST_F(Fixtures, KdaGate) {
  OPEN_OR_SKIP("kda_decay");
  Index T = dim("g", 1), heads = dim("g", 2), keyDim = dim("g", 3);
  Vec g = kdaGate(values("z"), values("A_log"), values("dt_bias"), GateKind::BoundedSigmoid, number("lower_bound"), T,
                  heads, keyDim);
  EXPECT_LT(maxDifference(g, values("g")), 2e-6);
}

TEST_F(Fixtures, KdaRecurrence) {
  OPEN_OR_SKIP("kda_recur8");
  ScanShape shape{integer("T"), integer("H"), integer("d_k"), integer("d_v")};
  Vec g = values("alpha");
  for (double &x : g)
    x = std::log(x);
  Vec beta = values("beta"); // weights there, logits here
  for (double &b : beta)
    b = std::log(b / (1 - b));
  ScanOptions options; // q and k of this fixture are used as they are, without normalisation
  options.scale = number("q_scale");
  Vec state(shape.heads * shape.keyDim * shape.valueDim);
  Vec o = kdaScan(values("q"), values("k"), values("v"), g, beta, Ints{0, static_cast<int>(shape.tokens)}, {}, state,
                  shape, options);
  EXPECT_LT(relativeDifference(o, values("out")), 5e-6);
  Vec keyFirst = values("state_out"); // [H, K, V] there
  Vec transposed;
  for (Index h = 0; h < shape.heads; ++h)
    for (Index i = 0; i < shape.keyDim; ++i)
      for (Index j = 0; j < shape.valueDim; ++j)
        transposed.push_back(state[(h * shape.valueDim + j) * shape.keyDim + i]);
  EXPECT_LT(relativeDifference(transposed, keyFirst), 5e-6);
}

TEST_F(Fixtures, Router) {
  OPEN_OR_SKIP("router");
  Index T = dim("in", 0), d = dim("in", 1), E = integer("n_experts"), k = integer("top_k");
  Routing r = route(linear(values("in"), values("gate_weight"), T, d, E), values("bias"), T, {E, k, true, 1.0});
  Vec ids(r.ids.begin(), r.ids.end());
  EXPECT_EQ(ids, values("topk_idx"));
  EXPECT_LT(maxDifference(r.weights, values("topk_weight")), 1e-6);
}

TEST_F(Fixtures, AttnRes) {
  OPEN_OR_SKIP("attnres");
  Index T = dim("block_residual", 0), slots = dim("block_residual", 1), d = dim("block_residual", 2);
  Vec stream = slotMajor(values("block_residual"), T, slots, d), partial = values("prefix_sum");
  stream.insert(stream.end(), partial.begin(), partial.end());
  Vec y = attnResMix(stream, slots + 1, values("norm_weight"), values("proj_weight"), number("eps"), {T, d});
  EXPECT_LT(maxDifference(y, values("out")), 5e-6);
}

TEST_F(Fixtures, LatentMoe) {
  OPEN_OR_SKIP("moe");
  std::map<std::string, Vec> storage;
  MoeWeights w;
  auto get = [&](const std::string &name) -> View { return storage[name] = values(name); };
  Index E = integer("n_experts"), width = integer("moe_inter");
  w.router = get("gate_weight");
  w.bias = get("e_score_correction_bias");
  w.down = get("down_weight");
  w.up = get("up_weight");
  w.norm = get("norm_weight");
  for (Index e = 0; e < E; ++e) {
    std::string p = "experts_" + std::to_string(e) + "_w";
    w.w1.push_back(get(p + "1_weight"));
    w.w3.push_back(get(p + "3_weight"));
    w.w2.push_back(get(p + "2_weight"));
  }
  w.sharedGate = get("shared_w1_weight");
  w.sharedUp = get("shared_w3_weight");
  w.sharedDown = get("shared_w2_weight");
  MoeShape shape{dim("in", 1), integer("hidden"), integer("latent"), width, width * integer("n_shared")};
  RouteOptions options{E, integer("top_k"), integer("renorm") != 0, number("routed_scale")};
  Vec y = moeBlock(values("in"), w, shape, options, {Activation::Situ, number("situ_b1"), number("situ_b2")},
                   number("rms_eps"));
  EXPECT_LT(relativeDifference(y, values("out")), 1e-6);
}

TEST_F(Fixtures, WholeKdaLayer) {
  OPEN_OR_SKIP("layer_kda");
  std::map<std::string, Vec> storage;
  auto get = [&](const std::string &name) -> View { return storage[name] = values(name); };
  Config c;
  Index layer = integer("layer_idx"), T = dim("in", 1);
  c.layers = layer + 1;
  c.hidden = integer("hidden");
  c.eps = number("rms_eps");
  c.activation = {Activation::Situ, 4, 25};
  c.attnResBlock = integer("attn_res_block_size");
  c.kdaLayers = {layer};
  c.kdaHeads = dim("self_attn_b_proj_weight", 0);
  c.kdaDim = dim("self_attn_o_norm_weight", 0);
  c.taps = dim("self_attn_q_conv1d_weight", 2);
  c.gateLowerBound = -5.0;
  c.router = {dim("mlp_gate_weight", 0), 2, true, 1.0};
  c.latent = dim("mlp_down_weight", 0);
  c.expertWidth = dim("mlp_experts_0_w1_weight", 0);
  c.sharedWidth = dim("mlp_shared_w1_weight", 0);

  LayerWeights w;
  w.inputNorm = get("input_layernorm_weight");
  w.postNorm = get("post_attention_layernorm_weight");
  w.attnResNorm = get("self_attention_res_norm_weight");
  w.attnResProj = get("self_attention_res_proj_weight");
  w.mlpResNorm = get("mlp_res_norm_weight");
  w.mlpResProj = get("mlp_res_proj_weight");
  w.kda.q = get("self_attn_q_proj_weight");
  w.kda.k = get("self_attn_k_proj_weight");
  w.kda.v = get("self_attn_v_proj_weight");
  w.kda.o = get("self_attn_o_proj_weight");
  w.kda.qConv = get("self_attn_q_conv1d_weight");
  w.kda.kConv = get("self_attn_k_conv1d_weight");
  w.kda.vConv = get("self_attn_v_conv1d_weight");
  w.kda.forget.a = get("self_attn_f_a_proj_weight");
  w.kda.forget.b = get("self_attn_f_b_proj_weight");
  w.kda.outputGate.full = get("self_attn_g_proj_weight");
  w.kda.beta = get("self_attn_b_proj_weight");
  w.kda.aLog = get("self_attn_A_log");
  w.kda.dtBias = get("self_attn_dt_bias");
  w.kda.oNorm = get("self_attn_o_norm_weight");
  w.moe.router = get("mlp_gate_weight");
  w.moe.bias = get("mlp_e_score_correction_bias");
  w.moe.down = get("mlp_down_weight");
  w.moe.up = get("mlp_up_weight");
  w.moe.norm = get("mlp_norm_weight");
  for (Index e = 0; e < c.router.experts; ++e) {
    std::string p = "mlp_experts_" + std::to_string(e) + "_w";
    w.moe.w1.push_back(get(p + "1_weight"));
    w.moe.w3.push_back(get(p + "3_weight"));
    w.moe.w2.push_back(get(p + "2_weight"));
  }
  w.moe.sharedGate = get("mlp_shared_w1_weight");
  w.moe.sharedUp = get("mlp_shared_w3_weight");
  w.moe.sharedDown = get("mlp_shared_w2_weight");

  Index snapshots = dim("block_residual_in", 1);
  Residual residual{slotMajor(values("block_residual_in"), T, snapshots, c.hidden), snapshots + 1};
  Vec partial = values("in");
  residual.stream.insert(residual.stream.end(), partial.begin(), partial.end());
  State state = initialState(c);
  decoderLayer(c, w, layer, residual, state.layers[layer], 0, T);
  EXPECT_EQ(residual.sources, snapshots + 1); // no block boundary here
  EXPECT_LT(relativeDifference(View(residual.stream).slice(snapshots * T * c.hidden, T * c.hidden), values("out")),
            5e-6);
}

TEST_F(Fixtures, RealMxFp4Bytes) {
  OPEN_OR_SKIP("mxfp4");
  auto packed = fixture["packed"]["data"].get<std::vector<std::uint8_t>>();
  auto scales = fixture["scales"]["data"].get<std::vector<std::uint8_t>>();
  Vec w = dequantMxFp4(packed.data(), scales.data(), integer("rows"), integer("logical_width"), integer("group_size"));
  EXPECT_EQ(w, values("expected"));
}
