// RUN: k3-opt %s --verify-roundtrip | FileCheck %s
// RUN: k3-opt %s --mlir-print-op-generic | k3-opt | FileCheck %s

// Result types are inferred: each check names them through the use in `return`.

// Activations are f32 whatever the table is stored as.
// CHECK-LABEL: func.func @embed
func.func @embed(%tokens: tensor<?xi32>, %table: tensor<32x8xbf16>) -> tensor<?x8xf32> {
  // CHECK: k3.embed %{{.*}} : tensor<?xi32> table(%{{.*}} : tensor<32x8xbf16>)
  %0 = k3.embed %tokens : tensor<?xi32> table(%table : tensor<32x8xbf16>)
  return %0 : tensor<?x8xf32>
}

// Logits of the chosen rows only.
// CHECK-LABEL: func.func @lm_head
func.func @lm_head(%x: tensor<?x8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x8xbf16>, %rows: tensor<2xi32>) ->
                   tensor<2x32xf32> {
  // CHECK: rows(%{{.*}} : tensor<2xi32>)
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x8xbf16>)
      rows(%rows : tensor<2xi32>) {eps = 1.0e-05 : f64}
  return %0 : tensor<2x32xf32>
}

// Logits of every row.
// CHECK-LABEL: func.func @lm_head_all_rows
func.func @lm_head_all_rows(%x: tensor<?x8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x8xbf16>) ->
                            tensor<?x32xf32> {
  // CHECK-NOT: rows
  // CHECK: k3.lm_head
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x8xbf16>)
      {eps = 1.0e-05 : f64}
  return %0 : tensor<?x32xf32>
}

// K3: SiTU.
// CHECK-LABEL: func.func @mlp
func.func @mlp(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
               %down_proj: tensor<8x16xbf16>) -> tensor<?x8xf32> {
  // CHECK: k3.mlp {{.*}} {activation = #k3.activation<situ>, beta = 4.000000e+00 : f64, linear_beta = 2.500000e+01 : f64}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return %0 : tensor<?x8xf32>
}

// Kimi-Linear: SwiGLU.
// CHECK-LABEL: func.func @mlp_swiglu
func.func @mlp_swiglu(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
                      %down_proj: tensor<8x16xbf16>) -> tensor<?x8xf32> {
  // CHECK: k3.mlp {{.*}} {activation = #k3.activation<swiglu>}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<swiglu>}
  return %0 : tensor<?x8xf32>
}

// K3: bounded gate, padded a_log, full-rank output gate.
// CHECK-LABEL: func.func @kda_k3
func.func @kda_k3(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                  %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                  %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                  %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                  %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                  %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                  %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                  %g_proj: tensor<12x8xbf16>) ->
                  (tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>)
                  {
  // CHECK: %[[Y:kda_y]], %[[Q:.*]], %[[K:.*]], %[[V:.*]], %[[S:kda_state]] = k3.kda.attention {{.*}} a_log(%{{.*}} : tensor<3xf32>) g_proj(%{{.*}} : tensor<12x8xbf16>)
  // CHECK: return %[[Y]], %[[Q]], %[[K]], %[[V]], %[[S]]
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>
}

// Kimi-Linear: softplus gate, low-rank output gate.
// CHECK-LABEL: func.func @kda_kimi_linear
func.func @kda_kimi_linear(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                           %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                           %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                           %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                           %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                           %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                           %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>,
                           %g_a_proj: tensor<4x8xbf16>, %g_b_proj: tensor<12x4xbf16>) ->
                           (tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>)
                           {
  // CHECK: k3.kda.attention {{.*}} g_a_proj(%{{.*}} : tensor<4x8xbf16>) g_b_proj(%{{.*}} : tensor<12x4xbf16>)
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<2xf32>) g_a_proj(%g_a_proj : tensor<4x8xbf16>)
      g_b_proj(%g_b_proj : tensor<12x4xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>
}

// K3.1: a bounded gate without a_log.
// CHECK-LABEL: func.func @kda_without_a_log
func.func @kda_without_a_log(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                             %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                             %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                             %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                             %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                             %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                             %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %g_proj: tensor<12x8xbf16>) ->
                             (tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>)
                             {
  // CHECK-NOT: a_log(
  // CHECK: k3.kda.attention
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>
}

// A forget gate of full rank.
// CHECK-LABEL: func.func @kda_full_rank_forget_gate
func.func @kda_full_rank_forget_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                             %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                             %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                             %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                             %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                             %f_proj: tensor<8x8xbf16>, %dt_bias: tensor<8xf32>,
                             %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %g_proj: tensor<12x8xbf16>) ->
                             (tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>)
                             {
  // CHECK-NOT: a_log(
  // CHECK: k3.kda.attention {{.*}} f_proj(%{{.*}} : tensor<8x8xbf16>) g_proj
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_proj(%f_proj : tensor<8x8xbf16>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<?x8xf32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<8 x 3, f32>, !k3.conv_state<12 x 3, f32>, !k3.kda_state<2 x 4 x 6, f32, row = value>
}

// K3: low-rank query, output gate.
// CHECK-LABEL: func.func @mla_k3
func.func @mla_k3(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                  %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                  %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                  %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) ->
                  (tensor<?x8xf32>, !k3.kv_cache<5 + 2, bf16, page = 4>) {
  // CHECK: %[[Y:mla_y]], %[[C:mla_cache]] = k3.mla.attention {{.*}} q_a_proj
  // CHECK: return %[[Y]], %[[C]]
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return %0#0, %0#1 : tensor<?x8xf32>, !k3.kv_cache<5 + 2, bf16, page = 4>
}

// Kimi-Linear: one query matrix, no output gate.
// CHECK-LABEL: func.func @mla_kimi_linear
func.func @mla_kimi_linear(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                           %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                           %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_proj: tensor<12x8xbf16>) ->
                           (tensor<?x8xf32>, !k3.kv_cache<5 + 2, bf16, page = 4>) {
  // CHECK-NOT: g_proj
  // CHECK: k3.mla.attention {{.*}} q_proj(%{{.*}} : tensor<12x8xbf16>) {
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_proj(%q_proj : tensor<12x8xbf16>) {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return %0#0, %0#1 : tensor<?x8xf32>, !k3.kv_cache<5 + 2, bf16, page = 4>
}

// K3: MXFP4 experts in a latent space, with norm, SiTU.
// CHECK-LABEL: func.func @moe_k3
func.func @moe_k3(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>, %w1: tensor<4x96x16xi8>,
                  %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>, %w1_scale: tensor<4x96x1xi8>,
                  %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                  %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                  %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) -> tensor<?x64xf32> {
  // CHECK: k3.latent_moe.block {{.*}} w1_scale(%{{.*}} : tensor<4x96x1xi8>)
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return %0 : tensor<?x64xf32>
}

// Kimi-Linear: bf16 experts at full width, SwiGLU, scaled.
// CHECK-LABEL: func.func @moe_kimi_linear
func.func @moe_kimi_linear(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xbf16>, %w2: tensor<4x64x96xbf16>,
                           %shared_gate: tensor<10x64xbf16>, %shared_up: tensor<10x64xbf16>,
                           %shared_down: tensor<64x10xbf16>) -> tensor<?x64xf32> {
  // CHECK-NOT: _scale(
  // CHECK-NOT: latent_down
  // CHECK: k3.latent_moe.block
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xbf16>) w2(%w2 : tensor<4x64x96xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 2.446 : f64, activation = #k3.activation<swiglu>}
  return %0 : tensor<?x64xf32>
}

// Routed experts only.
// CHECK-LABEL: func.func @moe_without_shared
func.func @moe_without_shared(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                              %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xbf16>, %w2: tensor<4x64x96xbf16>) ->
                              tensor<?x64xf32> {
  // CHECK-NOT: shared_gate
  // CHECK: k3.latent_moe.block
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xbf16>) w2(%w2 : tensor<4x64x96xbf16>)
      {top_k = 2 : i64, renormalize = false, scale = 1.0 : f64, activation = #k3.activation<swiglu>}
  return %0 : tensor<?x64xf32>
}
