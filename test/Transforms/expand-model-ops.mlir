// RUN: k3-opt %s --k3-expand-model-ops --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @embed
// CHECK-SAME: (%[[TOKENS:.*]]: tensor<?xi32>, %[[TABLE:.*]]: tensor<32x8xbf16>)
func.func @embed(%tokens: tensor<?xi32>, %table: tensor<32x8xbf16>) -> tensor<?x8xf32> {
  // CHECK: %[[T:.*]] = tensor.dim %[[TOKENS]]
  // CHECK: %[[OUT:.*]] = tensor.empty(%[[T]]) : tensor<?x8xf32>
  // CHECK: k3.gather_rows ins(%[[TOKENS]], %[[TABLE]] : {{.*}}) outs(%[[OUT]]
  %0 = k3.embed %tokens : tensor<?xi32> table(%table : tensor<32x8xbf16>)
  return %0 : tensor<?x8xf32>
}

// -----

// The rows are chosen before the norm: both work on R rows only.
// CHECK-LABEL: func.func @head
// CHECK-SAME: (%[[X:.*]]: tensor<?x8xf32>, %[[NORM:.*]]: tensor<8xbf16>, %[[WEIGHT:.*]]: tensor<32x8xbf16>, %[[ROWS:.*]]: tensor<?xi32>)
func.func @head(%x: tensor<?x8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x8xbf16>, %rows: tensor<?xi32>) -> tensor<?x32xf32> {
  // CHECK: %[[R:.*]] = tensor.dim %[[ROWS]]
  // CHECK: %[[PICKED:.*]] = k3.gather_rows ins(%[[ROWS]], %[[X]]
  // CHECK: %[[NORMED:.*]] = k3.rms_norm ins(%[[PICKED]], %[[NORM]] : {{.*}}eps = 1.000000e-05
  // CHECK: %[[OUT:.*]] = tensor.empty(%[[R]]) : tensor<?x32xf32>
  // CHECK: k3.linear ins(%[[NORMED]], %[[WEIGHT]] : {{.*}}) outs(%[[OUT]]
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x8xbf16>)
      rows(%rows : tensor<?xi32>) {eps = 1.0e-05 : f64}
  return %0 : tensor<?x32xf32>
}

// -----

// CHECK-LABEL: func.func @mlp
// CHECK-SAME: (%[[X:.*]]: tensor<3x8xf32>, %[[G:.*]]: tensor<16x8xbf16>, %[[U:.*]]: tensor<16x8xbf16>, %[[D:.*]]: tensor<8x16xbf16>)
func.func @mlp(%x: tensor<3x8xf32>, %g: tensor<16x8xbf16>, %u: tensor<16x8xbf16>, %d: tensor<8x16xbf16>) -> tensor<3x8xf32> {
  // CHECK: %[[GATE:.*]] = k3.linear ins(%[[X]], %[[G]]
  // CHECK: %[[UP:.*]] = k3.linear ins(%[[X]], %[[U]]
  // CHECK: %[[ACT:.*]] = k3.glu ins(%[[GATE]], %[[UP]] : {{.*}}activation = #k3.activation<situ>, beta = 4.000000e+00 : f64, linear_beta = 2.500000e+01
  // CHECK: k3.linear ins(%[[ACT]], %[[D]]
  %0 = k3.mlp %x : tensor<3x8xf32> gate_proj(%g : tensor<16x8xbf16>) up_proj(%u : tensor<16x8xbf16>)
      down_proj(%d : tensor<8x16xbf16>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return %0 : tensor<3x8xf32>
}

// -----

// Keys of width 4 and values of width 6, so that no transposed state can pass.
// CHECK-LABEL: func.func @kda_full_rank_gate
func.func @kda_full_rank_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %cq: !k3.conv_state<8 x 3, f32>, %ck: !k3.conv_state<8 x 3, f32>,
    %cv: !k3.conv_state<12 x 3, bf16>, %s: !k3.kda_state<2 x 4 x 6, f32, row = value>, %wq: tensor<8x8xbf16>,
    %wk: tensor<8x8xbf16>, %wv: tensor<12x8xbf16>, %wb: tensor<2x8xbf16>, %kq: tensor<8x4xf32>, %kk: tensor<8x4xf32>,
    %kv: tensor<12x4xf32>, %fa: tensor<3x8xbf16>, %fb: tensor<8x3xbf16>, %dt: tensor<8xf32>, %on: tensor<6xf32>,
    %wo: tensor<8x12xbf16>, %a: tensor<5xf32>, %wg: tensor<12x8xbf16>) -> (tensor<?x8xf32>, !k3.kda_state<2 x 4 x 6, f32, row = value>) {
  // CHECK: %[[SEQ:.*]]:4 = builtin.unrealized_conversion_cast %{{.*}} : !k3.seq to tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>
  // CHECK: %[[CQ:.*]] = builtin.unrealized_conversion_cast %{{.*}} to tensor<?x3x8xf32>
  // CHECK: %[[CK:.*]] = builtin.unrealized_conversion_cast %{{.*}} to tensor<?x3x8xf32>
  // CHECK: %[[CV:.*]] = builtin.unrealized_conversion_cast %{{.*}} to tensor<?x3x12xbf16>
  // CHECK: %[[S:.*]] = builtin.unrealized_conversion_cast %{{.*}} to tensor<?x2x6x4xf32>
  // CHECK: %[[Q0:.*]] = k3.linear ins(%[[X:[^,]*]], %arg6
  // CHECK: %[[Q1:.*]]:2 = k3.kda.short_conv ins(%[[Q0]], %arg10, %[[SEQ]]#0, %[[SEQ]]#1 : {{.*}}) outs(%{{.*}}, %[[CQ]] : {{.*}}{silu = true}
  // CHECK: %[[Q:.*]] = tensor.expand_shape %[[Q1]]#0 {{\[}}[0], [1, 2]] output_shape [%{{.*}}, 2, 4]
  // CHECK: k3.linear ins(%[[X]], %arg7
  // CHECK: k3.kda.short_conv {{.*}} outs(%{{.*}}, %[[CK]]
  // CHECK: %[[K:.*]] = tensor.expand_shape
  // CHECK: k3.linear ins(%[[X]], %arg8
  // CHECK: k3.kda.short_conv {{.*}} outs(%{{.*}}, %[[CV]]
  // CHECK: %[[V:.*]] = tensor.expand_shape {{.*}} output_shape [%{{.*}}, 2, 6]
  // CHECK: %[[BETA:.*]] = k3.linear ins(%[[X]], %arg9
  // CHECK: %[[FA:.*]] = k3.linear ins(%[[X]], %arg13
  // CHECK: %[[FB:.*]] = k3.linear ins(%[[FA]], %arg14
  // CHECK: %[[Z:.*]] = tensor.expand_shape %[[FB]]
  // CHECK: %[[DT:.*]] = tensor.expand_shape %arg15 {{\[}}[0, 1]] output_shape [2, 4]
  // CHECK: %[[G:.*]] = k3.kda.gate ins(%[[Z]], %[[DT]] : {{.*}}) a_log(%arg18 : tensor<5xf32>) {{.*}}kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.000000e+00
  // CHECK: %[[O:.*]]:2 = k3.kda.scan ins(%[[Q]], %[[K]], %[[V]], %[[BETA]], %[[SEQ]]#0, %[[SEQ]]#1 : {{.*}}) g(%[[G]] : {{.*}}) outs(%{{.*}}, %[[S]] : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {delta = true, gate_bound = -5.000000e+00 : f64, l2norm = true, scale = 5.000000e-01 : f64}
  // CHECK: %[[GATE0:.*]] = k3.linear ins(%[[X]], %arg19
  // CHECK: %[[GATE:.*]] = tensor.expand_shape %[[GATE0]] {{.*}} output_shape [%{{.*}}, 2, 6]
  // CHECK: %[[N:.*]] = k3.kda.gated_norm ins(%[[O]]#0, %[[GATE]], %arg16 : {{.*}}eps = 1.000000e-05
  // CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[N]]
  // CHECK: %[[Y:.*]] = k3.linear ins(%[[FLAT]], %arg17
  // CHECK: %[[STATE:.*]] = builtin.unrealized_conversion_cast %[[O]]#1 : tensor<?x2x6x4xf32> to !k3.kda_state
  // CHECK: return %[[Y]], %[[STATE]]
  %y, %cq1, %ck1, %cv1, %s1 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6)
      seq(%seq : !k3.seq) q_conv_state(%cq : <8 x 3, f32>) k_conv_state(%ck : <8 x 3, f32>)
      v_conv_state(%cv : <12 x 3, bf16>) state(%s : <2 x 4 x 6, f32, row = value>) q_proj(%wq : tensor<8x8xbf16>)
      k_proj(%wk : tensor<8x8xbf16>) v_proj(%wv : tensor<12x8xbf16>) b_proj(%wb : tensor<2x8xbf16>)
      q_conv1d(%kq : tensor<8x4xf32>) k_conv1d(%kk : tensor<8x4xf32>) v_conv1d(%kv : tensor<12x4xf32>)
      dt_bias(%dt : tensor<8xf32>)
      o_norm(%on : tensor<6xf32>) o_proj(%wo : tensor<8x12xbf16>)
      f_a_proj(%fa : tensor<3x8xbf16>) f_b_proj(%fb : tensor<8x3xbf16>) a_log(%a : tensor<5xf32>) g_proj(%wg : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %y, %s1 : tensor<?x8xf32>, !k3.kda_state<2 x 4 x 6, f32, row = value>
}

// -----

// A forget gate of full rank.
// CHECK-LABEL: func.func @kda_full_rank_forget_gate
func.func @kda_full_rank_forget_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %c: !k3.conv_state<8 x 3, f32>,
    %s: !k3.kda_state<2 x 4 x 4, f32, row = value>, %w: tensor<8x8xbf16>, %wb: tensor<2x8xbf16>, %k: tensor<8x4xf32>,
    %f: tensor<8x8xbf16>, %dt: tensor<8xf32>, %on: tensor<4xf32>, %a: tensor<2xf32>) -> tensor<?x8xf32> {
  // CHECK: %[[F:.*]] = k3.linear ins(%arg0, %arg7
  // CHECK: %[[Z:.*]] = tensor.expand_shape %[[F]]
  // CHECK: k3.kda.gate ins(%[[Z]],
  %y, %c0, %c1, %c2, %s1 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 4)
      seq(%seq : !k3.seq) q_conv_state(%c : <8 x 3, f32>) k_conv_state(%c : <8 x 3, f32>) v_conv_state(%c : <8 x 3, f32>)
      state(%s : <2 x 4 x 4, f32, row = value>) q_proj(%w : tensor<8x8xbf16>) k_proj(%w : tensor<8x8xbf16>)
      v_proj(%w : tensor<8x8xbf16>) b_proj(%wb : tensor<2x8xbf16>) q_conv1d(%k : tensor<8x4xf32>)
      k_conv1d(%k : tensor<8x4xf32>) v_conv1d(%k : tensor<8x4xf32>) dt_bias(%dt : tensor<8xf32>) o_norm(%on : tensor<4xf32>)
      o_proj(%w : tensor<8x8xbf16>) f_proj(%f : tensor<8x8xbf16>) a_log(%a : tensor<2xf32>) g_proj(%w : tensor<8x8xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %y : tensor<?x8xf32>
}

// -----

// Kimi-Linear: low-rank output gate, unbounded decay.
// CHECK-LABEL: func.func @kda_low_rank_gate
func.func @kda_low_rank_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %c: !k3.conv_state<8 x 3, f32>,
    %s: !k3.kda_state<2 x 4 x 4, f32, row = value>, %w: tensor<8x8xbf16>, %wb: tensor<2x8xbf16>, %k: tensor<8x4xf32>,
    %fa: tensor<3x8xbf16>, %fb: tensor<8x3xbf16>, %dt: tensor<8xf32>, %on: tensor<4xf32>, %a: tensor<2xf32>) -> tensor<?x8xf32> {
  // CHECK: k3.kda.gate {{.*}}kind = #k3.gate_kind<softplus>}
  // CHECK: k3.kda.scan
  // CHECK-NOT: gate_bound
  // CHECK: %[[GA:.*]] = k3.linear ins(%{{.*}}, %arg7
  // CHECK: %[[GB:.*]] = k3.linear ins(%[[GA]], %arg8
  // CHECK: %[[GATE:.*]] = tensor.expand_shape %[[GB]]
  // CHECK: k3.kda.gated_norm ins(%{{.*}}, %[[GATE]]
  %y, %c0, %c1, %c2, %s1 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 4)
      seq(%seq : !k3.seq) q_conv_state(%c : <8 x 3, f32>) k_conv_state(%c : <8 x 3, f32>) v_conv_state(%c : <8 x 3, f32>)
      state(%s : <2 x 4 x 4, f32, row = value>) q_proj(%w : tensor<8x8xbf16>) k_proj(%w : tensor<8x8xbf16>)
      v_proj(%w : tensor<8x8xbf16>) b_proj(%wb : tensor<2x8xbf16>) q_conv1d(%k : tensor<8x4xf32>)
      k_conv1d(%k : tensor<8x4xf32>) v_conv1d(%k : tensor<8x4xf32>) dt_bias(%dt : tensor<8xf32>) o_norm(%on : tensor<4xf32>) o_proj(%w : tensor<8x8xbf16>)
      f_a_proj(%fa : tensor<3x8xbf16>) f_b_proj(%fb : tensor<8x3xbf16>)
      a_log(%a : tensor<2xf32>) g_a_proj(%fa : tensor<3x8xbf16>) g_b_proj(%fb : tensor<8x3xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %y : tensor<?x8xf32>
}

// -----

// Low-rank queries, output gate; everything per cached token stays in latent space.
// CHECK-LABEL: func.func @mla_k3
func.func @mla_k3(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 3, bf16, page = 64>, %qa: tensor<6x8xbf16>,
    %qn: tensor<6xbf16>, %qb: tensor<14x6xbf16>, %kva: tensor<8x8xbf16>, %kvn: tensor<5xbf16>, %kvb: tensor<20x5xbf16>,
    %wg: tensor<12x8xbf16>, %wo: tensor<8x12xbf16>) -> (tensor<?x8xf32>, !k3.kv_cache<5 + 3, bf16, page = 64>) {
  // CHECK: %[[SEQ:.*]]:4 = builtin.unrealized_conversion_cast %{{.*}} : !k3.seq
  // CHECK: %[[CACHE:.*]] = builtin.unrealized_conversion_cast %{{.*}} to tensor<?x64x8xbf16>
  // CHECK: %[[QA:.*]] = k3.linear ins(%[[X:[^,]*]], %arg3
  // CHECK: %[[QN:.*]] = k3.rms_norm ins(%[[QA]], %arg4 : {{.*}}eps = 9.9999999999999995E-7
  // CHECK: %[[QB:.*]] = k3.linear ins(%[[QN]], %arg5
  // CHECK: %[[KV:.*]] = k3.linear ins(%[[X]], %arg6
  // CHECK: %[[NEW:.*]] = k3.mla.append ins(%[[KV]], %arg7, %[[SEQ]]#0, %[[SEQ]]#2, %[[SEQ]]#3 : {{.*}}) outs(%[[CACHE]] : {{.*}}eps = 9.9999999999999995E-7
  // CHECK: %[[KVB:.*]] = tensor.expand_shape %arg8 {{\[}}[0, 1], [2]] output_shape [2, 10, 5]
  // CHECK: %[[Q:.*]] = tensor.expand_shape %[[QB]] {{.*}} output_shape [%{{.*}}, 2, 7]
  // CHECK: %[[ABS:.*]] = k3.mla.absorb ins(%[[Q]], %[[KVB]] : {{.*}}{nope = 4 : i64}
  // CHECK: %[[ATT:.*]] = k3.mla.attend ins(%[[ABS]], %[[NEW]], %[[SEQ]]#0, %[[SEQ]]#2, %[[SEQ]]#3 : {{.*}}{scale = 2.500000e-01
  // CHECK: %[[EXP:.*]] = k3.mla.expand ins(%[[ATT]], %[[KVB]] : {{.*}}) outs(%{{.*}} : tensor<?x2x6xf32>) {nope = 4
  // CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[EXP]]
  // CHECK: %[[GATE:.*]] = k3.linear ins(%[[X]], %arg9
  // CHECK: %[[GATED:.*]] = k3.sigmoid_gate ins(%[[FLAT]], %[[GATE]]
  // CHECK: k3.linear ins(%[[GATED]], %arg10
  %y, %cache1 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 3, value_dim = 6)
      seq(%seq : !k3.seq) cache(%cache : <5 + 3, bf16, page = 64>) kv_a_proj(%kva : tensor<8x8xbf16>)
      kv_a_layernorm(%kvn : tensor<5xbf16>) kv_b_proj(%kvb : tensor<20x5xbf16>) o_proj(%wo : tensor<8x12xbf16>)
      q_a_proj(%qa : tensor<6x8xbf16>) q_a_layernorm(%qn : tensor<6xbf16>) q_b_proj(%qb : tensor<14x6xbf16>)
      g_proj(%wg : tensor<12x8xbf16>) {scale = 0.25 : f64, latent_eps = 1.0e-06 : f64}
  return %y, %cache1 : tensor<?x8xf32>, !k3.kv_cache<5 + 3, bf16, page = 64>
}

// -----

// CHECK-LABEL: func.func @mla_kimi_linear
func.func @mla_kimi_linear(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 3, f32, page = 64>, %q: tensor<14x8xbf16>,
    %kva: tensor<8x8xbf16>, %kvn: tensor<5xbf16>, %kvb: tensor<20x5xbf16>, %wo: tensor<8x12xbf16>) -> tensor<?x8xf32> {
  // CHECK: %[[Q:.*]] = k3.linear ins(%{{.*}}, %arg3
  // CHECK-NOT: k3.rms_norm
  // CHECK: tensor.expand_shape %[[Q]]
  // CHECK-NOT: k3.sigmoid_gate
  // CHECK: return
  %y, %cache1 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 3, value_dim = 6)
      seq(%seq : !k3.seq) cache(%cache : <5 + 3, f32, page = 64>) kv_a_proj(%kva : tensor<8x8xbf16>)
      kv_a_layernorm(%kvn : tensor<5xbf16>) kv_b_proj(%kvb : tensor<20x5xbf16>) o_proj(%wo : tensor<8x12xbf16>)
      q_proj(%q : tensor<14x8xbf16>) {scale = 0.25 : f64, latent_eps = 1.0e-06 : f64}
  return %y : tensor<?x8xf32>
}

// -----

// Latent experts in MXFP4. The router reads the full width, not the latent one; the norm acts on the sum over experts.
// CHECK-LABEL: func.func @moe_latent
// CHECK-SAME: (%[[X:.*]]: tensor<?x64xf32>, %[[ROUTER:.*]]: tensor<5x64xbf16>, %[[BIAS:.*]]: tensor<5xf32>
func.func @moe_latent(%x: tensor<?x64xf32>, %router: tensor<5x64xbf16>, %bias: tensor<5xf32>, %w1: tensor<5x96x16xi8>,
    %s1: tensor<5x96x1xi8>, %w2: tensor<5x32x48xi8>, %s2: tensor<5x32x3xi8>, %down: tensor<32x64xbf16>, %norm: tensor<32xbf16>,
    %up: tensor<64x32xbf16>, %sg: tensor<48x64xbf16>, %su: tensor<48x64xbf16>, %sd: tensor<64x48xbf16>) -> tensor<?x64xf32> {
  // CHECK: %[[LOGITS:.*]] = k3.linear ins(%[[X]], %[[ROUTER]]
  // CHECK: %[[ROUTE:.*]]:2 = k3.latent_moe.route ins(%[[LOGITS]], %[[BIAS]] : {{.*}}) outs(%{{.*}}, %{{.*}} : tensor<?x2xi32>, tensor<?x2xf32>) {renormalize = true, scale = 2.446000e+00
  // CHECK: %[[PLAN:.*]]:2 = k3.latent_moe.plan ins(%[[ROUTE]]#0 : {{.*}}) outs(%{{.*}}, %{{.*}} : tensor<6xi32>, tensor<?x2xi32>)
  // CHECK: %[[Z:.*]] = k3.linear ins(%[[X]], %arg7
  // CHECK: %[[GATE:.*]] = k3.latent_moe.grouped_contract ins(%[[Z]], %[[PLAN]]#0, %[[PLAN]]#1, %arg3 : {{.*}}) scale(%arg4 :
  // CHECK: %[[UP:.*]] = k3.latent_moe.grouped_contract ins(%[[Z]], %[[PLAN]]#0, %[[PLAN]]#1, %arg3
  // CHECK-DAG: %[[G:.*]] = tensor.collapse_shape %[[GATE]] {{\[}}[0, 1], [2]]
  // CHECK-DAG: %[[U:.*]] = tensor.collapse_shape %[[UP]] {{\[}}[0, 1], [2]]
  // CHECK: %[[UNIT:.*]] = k3.glu ins(%[[G]], %[[U]]
  // CHECK: %[[ROWS:.*]] = tensor.expand_shape %[[UNIT]] {{.*}} output_shape [%{{.*}}, 2, 96]
  // CHECK: %[[OUT:.*]] = k3.latent_moe.grouped_contract ins(%[[ROWS]], %[[PLAN]]#0, %[[PLAN]]#1, %arg5 : {{.*}}) scale(%arg6 :
  // CHECK: %[[SUM:.*]] = k3.latent_moe.combine ins(%[[OUT]], %[[ROUTE]]#1
  // CHECK: %[[NORMED:.*]] = k3.rms_norm ins(%[[SUM]], %arg8
  // CHECK: %[[ROUTED:.*]] = k3.linear ins(%[[NORMED]], %arg9
  // CHECK: k3.linear ins(%[[X]], %arg10
  // CHECK: k3.linear ins(%[[X]], %arg11
  // CHECK: %[[SHARED:.*]] = k3.linear ins(%{{.*}}, %arg12
  // CHECK: arith.addf %[[SHARED]], %[[ROUTED]] : tensor<?x64xf32>
  %y = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<5x64xbf16>) bias(%bias : tensor<5xf32>)
      w1(%w1 : tensor<5x96x16xi8>) w3(%w1 : tensor<5x96x16xi8>) w2(%w2 : tensor<5x32x48xi8>)
      w1_scale(%s1 : tensor<5x96x1xi8>) w3_scale(%s1 : tensor<5x96x1xi8>) w2_scale(%s2 : tensor<5x32x3xi8>)
      latent_down(%down : tensor<32x64xbf16>) latent_norm(%norm : tensor<32xbf16>) latent_up(%up : tensor<64x32xbf16>)
      shared_gate(%sg : tensor<48x64xbf16>) shared_up(%su : tensor<48x64xbf16>) shared_down(%sd : tensor<64x48xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 2.446 : f64, activation = #k3.activation<swiglu>, eps = 1.0e-05 : f64}
  return %y : tensor<?x64xf32>
}

// -----

// Full width, no shared part: the combination is the result.
// CHECK-LABEL: func.func @moe_plain
func.func @moe_plain(%x: tensor<?x8xf32>, %router: tensor<5x8xbf16>, %bias: tensor<5xf32>, %w1: tensor<5x16x8xbf16>,
                     %w2: tensor<5x8x16xbf16>) -> tensor<?x8xf32> {
  // CHECK: k3.latent_moe.grouped_contract ins(%arg0,
  // CHECK-NOT: scale(
  // CHECK: %[[Y:.*]] = k3.latent_moe.combine
  // CHECK-NEXT: return %[[Y]]
  %y = k3.latent_moe.block %x : tensor<?x8xf32> router(%router : tensor<5x8xbf16>) bias(%bias : tensor<5xf32>)
      w1(%w1 : tensor<5x16x8xbf16>) w3(%w1 : tensor<5x16x8xbf16>) w2(%w2 : tensor<5x8x16xbf16>)
      {top_k = 2 : i64, renormalize = false, scale = 1.0 : f64, activation = #k3.activation<swiglu>}
  return %y : tensor<?x8xf32>
}
