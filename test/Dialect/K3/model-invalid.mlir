// RUN: k3-opt %s --split-input-file --verify-diagnostics

func.func @embed_tokens(%tokens: tensor<2x3xi32>, %table: tensor<32x8xbf16>) {
  // expected-error @+1 {{expected 'tokens' of shape [T], got 'tensor<2x3xi32>'}}
  %0 = k3.embed %tokens : tensor<2x3xi32> table(%table : tensor<32x8xbf16>)
  return
}

// -----

func.func @embed_table(%tokens: tensor<?xi32>, %table: tensor<32xbf16>) {
  // expected-error @+1 {{expected 'table' of shape [vocabulary, hidden], got 'tensor<32xbf16>'}}
  %0 = k3.embed %tokens : tensor<?xi32> table(%table : tensor<32xbf16>)
  return
}

// -----

func.func @lm_head_x(%x: tensor<8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x8xbf16>) {
  // expected-error @+1 {{expected 'x' of shape [T, hidden], got 'tensor<8xf32>'}}
  %0 = k3.lm_head %x : tensor<8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x8xbf16>)
      {eps = 1.0e-05 : f64}
  return
}

// -----

func.func @lm_head_norm(%x: tensor<?x8xf32>, %norm: tensor<9xbf16>, %weight: tensor<32x8xbf16>) {
  // expected-error @+1 {{expected 'norm' of shape [hidden = 8], got 'tensor<9xbf16>'}}
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<9xbf16>) weight(%weight : tensor<32x8xbf16>)
      {eps = 1.0e-05 : f64}
  return
}

// -----

func.func @lm_head_weight(%x: tensor<?x8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x9xbf16>) {
  // expected-error @+1 {{expected 'weight' of shape [vocabulary = 32, hidden = 8], got 'tensor<32x9xbf16>'}}
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x9xbf16>)
      {eps = 1.0e-05 : f64}
  return
}

// -----

func.func @lm_head_rows(%x: tensor<?x8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x8xbf16>,
                        %rows: tensor<2x1xi32>) {
  // expected-error @+1 {{expected 'rows' of shape [R], got 'tensor<2x1xi32>'}}
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x8xbf16>)
      rows(%rows : tensor<2x1xi32>) {eps = 1.0e-05 : f64}
  return
}

// -----

func.func @lm_head_eps(%x: tensor<?x8xf32>, %norm: tensor<8xbf16>, %weight: tensor<32x8xbf16>) {
  // expected-error @+1 {{'k3.lm_head' op expected finite 'eps' >= 0, got -1.000000e+00}}
  %0 = k3.lm_head %x : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%weight : tensor<32x8xbf16>)
      {eps = -1.0 : f64}
  return
}

// -----

func.func @mlp_x(%x: tensor<8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
                 %down_proj: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected 'x' of shape [T, hidden], got 'tensor<8xf32>'}}
  %0 = k3.mlp %x : tensor<8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>) up_proj(%up_proj : tensor<16x8xbf16>)
      down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return
}

// -----

func.func @mlp_gate_proj(%x: tensor<?x8xf32>, %gate_proj: tensor<16x9xbf16>, %up_proj: tensor<16x8xbf16>,
                         %down_proj: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected 'gate_proj' of shape [width = 16, hidden = 8], got 'tensor<16x9xbf16>'}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x9xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return
}

// -----

func.func @mlp_up_proj(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<17x8xbf16>,
                       %down_proj: tensor<8x16xbf16>) {
  // expected-error @+1 {{expected 'up_proj' of shape [width = 16, hidden = 8], got 'tensor<17x8xbf16>'}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<17x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return
}

// -----

func.func @mlp_down_proj(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
                         %down_proj: tensor<16x8xbf16>) {
  // expected-error @+1 {{expected 'down_proj' of shape [hidden = 8, width = 16], got 'tensor<16x8xbf16>'}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<16x8xbf16>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return
}

// -----

func.func @mlp_swiglu_beta(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
                           %down_proj: tensor<8x16xbf16>) {
  // expected-error @+1 {{'k3.mlp' op expected no 'beta' with swiglu, got 4.000000e+00}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<swiglu>, beta = 4.0 : f64}
  return
}

// -----

func.func @mlp_situ_no_beta(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
                            %down_proj: tensor<8x16xbf16>) {
  // expected-error @+1 {{'k3.mlp' op expected 'beta' > 0 with situ, got none}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<situ>, linear_beta = 4.0 : f64}
  return
}

// -----

func.func @mlp_situ_zero_beta(%x: tensor<?x8xf32>, %gate_proj: tensor<16x8xbf16>, %up_proj: tensor<16x8xbf16>,
                              %down_proj: tensor<8x16xbf16>) {
  // expected-error @+1 {{'k3.mlp' op expected finite 'linear_beta' > 0 with situ, got 0.000000e+00}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate_proj : tensor<16x8xbf16>)
      up_proj(%up_proj : tensor<16x8xbf16>) down_proj(%down_proj : tensor<8x16xbf16>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 0.0 : f64}
  return
}

// -----

func.func @kda_x(%x: tensor<8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                 %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                 %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                 %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                 %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                 %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                 %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                 %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'x' of shape [T, hidden], got 'tensor<8xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
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
  return
}

// -----

func.func @kda_q_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x9xbf16>,
                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'q_proj' of shape [heads * key_dim = 8, hidden = 8], got 'tensor<8x9xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x9xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_k_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                      %k_proj: tensor<9x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'k_proj' of shape [heads * key_dim = 8, hidden = 8], got 'tensor<9x8xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<9x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_v_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<8x8xbf16>, %b_proj: tensor<2x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'v_proj' of shape [heads * value_dim = 12, hidden = 8], got 'tensor<8x8xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<8x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_b_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<3x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'b_proj' of shape [heads = 2, hidden = 8], got 'tensor<3x8xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<3x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_q_conv1d(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x1x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                        %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'q_conv1d' of shape [heads * key_dim = 8, taps], got 'tensor<8x1x4xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x1x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_k_conv1d(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x3xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                        %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'k_conv1d' of shape [heads * key_dim = 8, taps = 4], got 'tensor<8x3xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x3xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_v_conv1d(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<8x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                        %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'v_conv1d' of shape [heads * value_dim = 12, taps = 4], got 'tensor<8x4xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<8x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_f_a_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x9xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                        %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'f_a_proj' of shape [gate rank = 4, hidden = 8], got 'tensor<4x9xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x9xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_f_b_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x5xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                        %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'f_b_proj' of shape [heads * key_dim = 8, gate rank = 4], got 'tensor<8x5xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x5xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_dt_bias(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                       %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                       %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                       %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                       %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                       %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<2x4xf32>,
                       %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                       %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'dt_bias' of shape [heads * key_dim = 8], got 'tensor<2x4xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<2x4xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_o_norm(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<4xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'o_norm' of shape [value_dim = 6], got 'tensor<4xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<4xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_o_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<6xf32>, %o_proj: tensor<12x8xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'o_proj' of shape [hidden = 8, heads * value_dim = 12], got 'tensor<12x8xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<12x8xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_a_log(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                     %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                     %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                     %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                     %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                     %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                     %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<1xf32>,
                     %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'a_log' of shape [heads >= 2], got 'tensor<1xf32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<1xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_g_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                      %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                      %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                      %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                      %g_proj: tensor<8x8xbf16>) {
  // expected-error @+1 {{expected 'g_proj' of shape [heads * value_dim = 12, hidden = 8], got 'tensor<8x8xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<8x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_g_a_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>,
                        %g_a_proj: tensor<4x9xbf16>, %g_b_proj: tensor<12x4xbf16>) {
  // expected-error @+1 {{expected 'g_a_proj' of shape [output gate rank = 4, hidden = 8], got 'tensor<4x9xbf16>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<2xf32>) g_a_proj(%g_a_proj : tensor<4x9xbf16>)
      g_b_proj(%g_b_proj : tensor<12x4xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_g_b_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>,
                        %g_a_proj: tensor<4x8xbf16>, %g_b_proj: tensor<12x5xbf16>) {
  // expected-error @+1 {{expected 'g_b_proj' of shape [heads * value_dim = 12, output gate rank = 4], got 'tensor<12x5xbf16>'}}
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
      g_b_proj(%g_b_proj : tensor<12x5xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_state(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                     %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                     %state: !k3.kda_state<2 x 6 x 4, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                     %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                     %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                     %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                     %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                     %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'state' of heads x key x value = 2 x 4 x 6, got '!k3.kda_state<2 x 6 x 4, f32, row = value>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 6 x 4, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_q_conv_state(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 4, f32>,
                            %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                            %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                            %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                            %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                            %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                            %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                            %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'q_conv_state' of channels x (taps - 1) = 8 x 3, got '!k3.conv_state<8 x 4, f32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 4, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_k_conv_state(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                            %k_conv_state: !k3.conv_state<12 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                            %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                            %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                            %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                            %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                            %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                            %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'k_conv_state' of channels x (taps - 1) = 8 x 3, got '!k3.conv_state<12 x 3, f32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<12 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_v_conv_state(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                            %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<8 x 3, f32>,
                            %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                            %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                            %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                            %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                            %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                            %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected 'v_conv_state' of channels x (taps - 1) = 12 x 3, got '!k3.conv_state<8 x 3, f32>'}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<8 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<3xf32>) g_proj(%g_proj : tensor<12x8xbf16>)
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_heads_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                              %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                              %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                              %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                              %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                              %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                              %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                              %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected positive 'heads', got 0}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 0, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
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
  return
}

// -----

func.func @kda_key_dim_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                                %k_conv_state: !k3.conv_state<8 x 3, f32>,
                                %v_conv_state: !k3.conv_state<12 x 3, f32>,
                                %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                                %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                                %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                                %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                                %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                                %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected positive 'key_dim', got -4}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = -4, value_dim = 6) seq(%seq : !k3.seq)
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
  return
}

// -----

func.func @kda_value_dim_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                                  %k_conv_state: !k3.conv_state<8 x 3, f32>,
                                  %v_conv_state: !k3.conv_state<12 x 3, f32>,
                                  %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                                  %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                                  %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>,
                                  %v_conv1d: tensor<12x4xf32>, %f_a_proj: tensor<4x8xbf16>,
                                  %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>, %o_norm: tensor<6xf32>,
                                  %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>, %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{expected positive 'value_dim', got 0}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 0) seq(%seq : !k3.seq)
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
  return
}

// -----

func.func @kda_half_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                         %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                         %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                         %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                         %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                         %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                         %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>,
                         %g_a_proj: tensor<4x8xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected 'g_a_proj' and 'g_b_proj' together, got 'g_a_proj' only}}
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
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_no_forget_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                       %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                       %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                       %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                       %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                       %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                       %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>) {
  // expected-error @+1 {{'k3.kda.attention' op expected either 'f_proj' or 'f_a_proj', got none}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      a_log(%a_log : tensor<2xf32>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_both_forget_gates(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                       %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                       %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                       %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                       %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                       %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                       %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>) {
  // expected-error @+1 {{'k3.kda.attention' op expected either 'f_proj' or 'f_a_proj', got both}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_proj(%q_proj : tensor<8x8xbf16>) f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<2xf32>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_half_forget_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                       %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                       %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                       %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                       %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                       %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                       %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>) {
  // expected-error @+1 {{'k3.kda.attention' op expected 'f_a_proj' and 'f_b_proj' together, got 'f_a_proj' only}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) a_log(%a_log : tensor<2xf32>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_no_gate(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                       %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                       %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                       %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                       %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                       %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                       %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<2xf32>) {
  // expected-error @+1 {{'k3.kda.attention' op expected either 'g_proj' or 'g_a_proj', got none}}
  %0:5 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 6) seq(%seq : !k3.seq)
      q_conv_state(%q_conv_state : !k3.conv_state<8 x 3, f32>)
      k_conv_state(%k_conv_state : !k3.conv_state<8 x 3, f32>)
      v_conv_state(%v_conv_state : !k3.conv_state<12 x 3, f32>)
      state(%state : !k3.kda_state<2 x 4 x 6, f32, row = value>) q_proj(%q_proj : tensor<8x8xbf16>)
      k_proj(%k_proj : tensor<8x8xbf16>) v_proj(%v_proj : tensor<12x8xbf16>) b_proj(%b_proj : tensor<2x8xbf16>)
      q_conv1d(%q_conv1d : tensor<8x4xf32>) k_conv1d(%k_conv1d : tensor<8x4xf32>)
      v_conv1d(%v_conv1d : tensor<12x4xf32>) dt_bias(%dt_bias : tensor<8xf32>) o_norm(%o_norm : tensor<6xf32>)
      o_proj(%o_proj : tensor<8x12xbf16>)
      f_a_proj(%f_a_proj : tensor<4x8xbf16>) f_b_proj(%f_b_proj : tensor<8x4xbf16>) a_log(%a_log : tensor<2xf32>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_both_gates(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                          %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                          %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                          %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                          %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                          %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                          %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                          %g_proj: tensor<12x8xbf16>, %g_a_proj: tensor<4x8xbf16>, %g_b_proj: tensor<12x4xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected either 'g_proj' or 'g_a_proj', got both}}
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
      g_a_proj(%g_a_proj : tensor<4x8xbf16>) g_b_proj(%g_b_proj : tensor<12x4xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_no_bound(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                        %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                        %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                        %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                        %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                        %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                        %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                        %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected 'lower_bound' < 0 with bounded_sigmoid, got none}}
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
      {gate = #k3.gate_kind<bounded_sigmoid>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_positive_bound(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                              %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                              %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                              %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                              %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                              %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                              %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                              %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected finite 'lower_bound' < 0 with bounded_sigmoid, got 5.000000e+00}}
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
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = 5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_softplus_bound(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                              %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                              %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                              %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                              %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                              %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                              %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                              %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected no 'lower_bound' with softplus, got -5.000000e+00}}
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
      {gate = #k3.gate_kind<softplus>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_softplus_without_a_log(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                                      %k_conv_state: !k3.conv_state<8 x 3, f32>,
                                      %v_conv_state: !k3.conv_state<12 x 3, f32>,
                                      %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                                      %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>,
                                      %b_proj: tensor<2x8xbf16>, %q_conv1d: tensor<8x4xf32>,
                                      %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                                      %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>,
                                      %dt_bias: tensor<8xf32>, %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>,
                                      %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected 'a_log' with softplus, got none}}
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
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @kda_eps(%x: tensor<?x8xf32>, %seq: !k3.seq, %q_conv_state: !k3.conv_state<8 x 3, f32>,
                   %k_conv_state: !k3.conv_state<8 x 3, f32>, %v_conv_state: !k3.conv_state<12 x 3, f32>,
                   %state: !k3.kda_state<2 x 4 x 6, f32, row = value>, %q_proj: tensor<8x8xbf16>,
                   %k_proj: tensor<8x8xbf16>, %v_proj: tensor<12x8xbf16>, %b_proj: tensor<2x8xbf16>,
                   %q_conv1d: tensor<8x4xf32>, %k_conv1d: tensor<8x4xf32>, %v_conv1d: tensor<12x4xf32>,
                   %f_a_proj: tensor<4x8xbf16>, %f_b_proj: tensor<8x4xbf16>, %dt_bias: tensor<8xf32>,
                   %o_norm: tensor<6xf32>, %o_proj: tensor<8x12xbf16>, %a_log: tensor<3xf32>,
                   %g_proj: tensor<12x8xbf16>) {
  // expected-error @+1 {{'k3.kda.attention' op expected finite 'eps' >= 0, got -1.000000e-05}}
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
      {gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.5 : f64, eps = -1.0e-05 : f64}
  return
}

// -----

func.func @mla_x(%x: tensor<8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                 %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                 %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                 %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'x' of shape [T, hidden], got 'tensor<8xf32>'}}
  %0:2 = k3.mla.attention %x : tensor<8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_kv_a_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                         %kv_a_proj: tensor<5x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                         %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                         %q_a_layernorm: tensor<3xbf16>, %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'kv_a_proj' of shape [latent + rope_dim = 7, hidden = 8], got 'tensor<5x8xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<5x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_kv_a_layernorm(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                              %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<7xbf16>,
                              %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                              %q_a_layernorm: tensor<3xbf16>, %q_b_proj: tensor<12x3xbf16>,
                              %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'kv_a_layernorm' of shape [latent = 5], got 'tensor<7xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<7xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_kv_b_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                         %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                         %kv_b_proj: tensor<6x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                         %q_a_layernorm: tensor<3xbf16>, %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'kv_b_proj' of shape [heads * (nope_dim + value_dim) = 14, latent = 5], got 'tensor<6x5xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<6x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_o_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                      %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                      %o_proj: tensor<8x14xbf16>, %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                      %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'o_proj' of shape [hidden = 8, heads * value_dim = 6], got 'tensor<8x14xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x14xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_q_a_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                        %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                        %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x9xbf16>,
                        %q_a_layernorm: tensor<3xbf16>, %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'q_a_proj' of shape [query rank = 3, hidden = 8], got 'tensor<3x9xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x9xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_q_a_layernorm(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                             %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                             %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                             %q_a_layernorm: tensor<4xbf16>, %q_b_proj: tensor<12x3xbf16>,
                             %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'q_a_layernorm' of shape [query rank = 3], got 'tensor<4xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<4xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_q_b_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                        %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                        %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                        %q_a_layernorm: tensor<3xbf16>, %q_b_proj: tensor<8x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'q_b_proj' of shape [heads * (nope_dim + rope_dim) = 12, query rank = 3], got 'tensor<8x3xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<8x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_g_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                      %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                      %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                      %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<8x8xbf16>) {
  // expected-error @+1 {{expected 'g_proj' of shape [heads * value_dim = 6, hidden = 8], got 'tensor<8x8xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<8x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_q_proj(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                      %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                      %o_proj: tensor<8x6xbf16>, %q_proj: tensor<8x8xbf16>) {
  // expected-error @+1 {{expected 'q_proj' of shape [heads * (nope_dim + rope_dim) = 12, hidden = 8], got 'tensor<8x8xbf16>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_proj(%q_proj : tensor<8x8xbf16>) {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_cache(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 3, bf16, page = 4>,
                     %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                     %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                     %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected 'cache' of rope width 2, got '!k3.kv_cache<5 + 3, bf16, page = 4>'}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 3, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_heads_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                              %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                              %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                              %q_a_layernorm: tensor<3xbf16>, %q_b_proj: tensor<12x3xbf16>,
                              %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected positive 'heads', got 0}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 0, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_nope_dim_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                                 %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                                 %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>,
                                 %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                                 %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected positive 'nope_dim', got 0}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 0, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_rope_dim_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                                 %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                                 %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>,
                                 %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                                 %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected positive 'rope_dim', got 0}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 0, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_value_dim_positive(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                                  %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                                  %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>,
                                  %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                                  %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{expected positive 'value_dim', got 0}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 0)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_no_q_norm(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                         %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                         %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>,
                         %q_b_proj: tensor<12x3xbf16>) {
  // expected-error @+1 {{'k3.mla.attention' op expected 'q_a_proj' and 'q_a_layernorm' together, got 'q_a_proj' only}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_b_proj(%q_b_proj : tensor<12x3xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_no_query(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                        %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                        %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>) {
  // expected-error @+1 {{'k3.mla.attention' op expected either 'q_proj' or 'q_a_proj', got none}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_both_queries(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                            %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>,
                            %kv_b_proj: tensor<14x5xbf16>, %o_proj: tensor<8x6xbf16>, %q_proj: tensor<12x8xbf16>,
                            %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                            %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{'k3.mla.attention' op expected either 'q_proj' or 'q_a_proj', got both}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_proj(%q_proj : tensor<12x8xbf16>) q_a_proj(%q_a_proj : tensor<3x8xbf16>)
      q_a_layernorm(%q_a_layernorm : tensor<3xbf16>) q_b_proj(%q_b_proj : tensor<12x3xbf16>)
      g_proj(%g_proj : tensor<6x8xbf16>) {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return
}

// -----

func.func @mla_eps(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                   %kv_a_proj: tensor<7x8xbf16>, %kv_a_layernorm: tensor<5xbf16>, %kv_b_proj: tensor<14x5xbf16>,
                   %o_proj: tensor<8x6xbf16>, %q_a_proj: tensor<3x8xbf16>, %q_a_layernorm: tensor<3xbf16>,
                   %q_b_proj: tensor<12x3xbf16>, %g_proj: tensor<6x8xbf16>) {
  // expected-error @+1 {{'k3.mla.attention' op expected finite 'latent_eps' >= 0, got -1.000000e-06}}
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 2, value_dim = 3)
      seq(%seq : !k3.seq) cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>)
      kv_a_proj(%kv_a_proj : tensor<7x8xbf16>) kv_a_layernorm(%kv_a_layernorm : tensor<5xbf16>)
      kv_b_proj(%kv_b_proj : tensor<14x5xbf16>) o_proj(%o_proj : tensor<8x6xbf16>)
      q_a_proj(%q_a_proj : tensor<3x8xbf16>) q_a_layernorm(%q_a_layernorm : tensor<3xbf16>)
      q_b_proj(%q_b_proj : tensor<12x3xbf16>) g_proj(%g_proj : tensor<6x8xbf16>)
      {scale = 0.5 : f64, latent_eps = -1.0e-06 : f64}
  return
}

// -----

func.func @moe_x(%x: tensor<64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>, %w1: tensor<4x96x16xi8>,
                 %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>, %w1_scale: tensor<4x96x1xi8>,
                 %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                 %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                 %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'x' of shape [T, hidden], got 'tensor<64xf32>'}}
  %0 = k3.latent_moe.block %x : tensor<64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_router(%x: tensor<?x64xf32>, %router: tensor<4x32xbf16>, %bias: tensor<4xf32>,
                      %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                      %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                      %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                      %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                      %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'router' of shape [E = 4, hidden = 64], got 'tensor<4x32xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x32xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_bias(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<5xf32>, %w1: tensor<4x96x16xi8>,
                    %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>, %w1_scale: tensor<4x96x1xi8>,
                    %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                    %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                    %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'bias' of shape [E = 4], got 'tensor<5xf32>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<5xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_w1(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>, %w1: tensor<4x96x32xi8>,
                  %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>, %w1_scale: tensor<4x96x1xi8>,
                  %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                  %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                  %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'w1' of shape [E = 4, width = 96, latent / 2 = 16], got 'tensor<4x96x32xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x32xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_w3(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>, %w1: tensor<4x96x16xi8>,
                  %w3: tensor<4x64x16xi8>, %w2: tensor<4x32x48xi8>, %w1_scale: tensor<4x96x1xi8>,
                  %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                  %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                  %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'w3' of shape [E = 4, width = 96, latent / 2 = 16], got 'tensor<4x64x16xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x64x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_w2(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>, %w1: tensor<4x96x16xi8>,
                  %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x96xi8>, %w1_scale: tensor<4x96x1xi8>,
                  %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                  %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                  %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'w2' of shape [E = 4, latent = 32, width / 2 = 48], got 'tensor<4x32x96xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x96xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_w1_scale(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                        %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                        %w1_scale: tensor<4x96x2xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                        %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                        %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                        %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'w1_scale' of shape [E = 4, width = 96, latent / 32 = 1], got 'tensor<4x96x2xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x2xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_w3_scale(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                        %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                        %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x32x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                        %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                        %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                        %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'w3_scale' of shape [E = 4, width = 96, latent / 32 = 1], got 'tensor<4x32x1xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x32x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_w2_scale(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                        %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                        %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x1xi8>,
                        %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                        %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                        %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'w2_scale' of shape [E = 4, latent = 32, width / 32 = 3], got 'tensor<4x32x1xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x1xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_latent_down(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                           %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                           %latent_down: tensor<32x32xbf16>, %latent_norm: tensor<32xbf16>,
                           %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                           %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'latent_down' of shape [latent = 32, hidden = 64], got 'tensor<32x32xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x32xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_latent_norm(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                           %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                           %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<64xbf16>,
                           %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                           %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'latent_norm' of shape [latent = 32], got 'tensor<64xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<64xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_latent_up(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                         %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                         %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                         %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                         %latent_up: tensor<32x64xbf16>, %shared_gate: tensor<10x64xbf16>,
                         %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'latent_up' of shape [hidden = 64, latent = 32], got 'tensor<32x64xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<32x64xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_shared_gate(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                           %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                           %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                           %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x32xbf16>,
                           %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'shared_gate' of shape [shared = 10, hidden = 64], got 'tensor<10x32xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x32xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_shared_up(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                         %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                         %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                         %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                         %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                         %shared_up: tensor<11x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected 'shared_up' of shape [shared = 10, hidden = 64], got 'tensor<11x64xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<11x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_shared_down(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                           %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                           %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                           %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                           %shared_up: tensor<10x64xbf16>, %shared_down: tensor<10x64xbf16>) {
  // expected-error @+1 {{expected 'shared_down' of shape [hidden = 64, shared = 10], got 'tensor<10x64xbf16>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<10x64xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_group(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                     %w1: tensor<4x48x16xi8>, %w3: tensor<4x48x16xi8>, %w2: tensor<4x32x48xi8>,
                     %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                     %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                     %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                     %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{expected MXFP4 width to be a multiple of 32, got 48}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x48x16xi8>) w3(%w3 : tensor<4x48x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_no_up(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                     %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                     %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                     %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                     %shared_gate: tensor<10x64xbf16>, %shared_up: tensor<10x64xbf16>,
                     %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 'latent_down' and 'latent_up' together, got 'latent_down' only}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) shared_gate(%shared_gate : tensor<10x64xbf16>)
      shared_up(%shared_up : tensor<10x64xbf16>) shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_no_shared_up(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                            %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                            %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>,
                            %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                            %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>,
                            %shared_gate: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 'shared_gate' and 'shared_up' together, got 'shared_gate' only}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_norm_without_down(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                                 %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xbf16>, %w2: tensor<4x64x96xbf16>,
                                 %latent_norm: tensor<64xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 'latent_norm' with 'latent_down' only, got it without}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xbf16>) w2(%w2 : tensor<4x64x96xbf16>)
      latent_norm(%latent_norm : tensor<64xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<swiglu>}
  return
}

// -----

func.func @moe_norm_without_eps(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                                %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                                %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>,
                                %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                                %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>,
                                %shared_gate: tensor<10x64xbf16>, %shared_up: tensor<10x64xbf16>,
                                %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 'eps' with 'latent_norm', got none}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
  return
}

// -----

func.func @moe_eps_without_norm(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                                %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xbf16>, %w2: tensor<4x64x96xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected no 'eps' without 'latent_norm', got 1.000000e-05}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xbf16>) w2(%w2 : tensor<4x64x96xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<swiglu>, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_eps(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>, %w1: tensor<4x96x16xi8>,
                   %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>, %w1_scale: tensor<4x96x1xi8>,
                   %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>, %latent_down: tensor<32x64xbf16>,
                   %latent_norm: tensor<32xbf16>, %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                   %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected finite 'eps' >= 0, got -1.000000e-05}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = -1.0e-05 : f64}
  return
}

// -----

func.func @moe_mixed_types(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xf32>, %w2: tensor<4x64x96xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 'w1' and 'w3' of one element type, got 'bf16' and 'f32'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xf32>) w2(%w2 : tensor<4x64x96xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<swiglu>}
  return
}

// -----

func.func @moe_no_scale(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                        %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                        %w1_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                        %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                        %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                        %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 'w3_scale' with i8 'w3', got none}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w2_scale(%w2_scale : tensor<4x32x3xi8>)
      latent_down(%latent_down : tensor<32x64xbf16>) latent_norm(%latent_norm : tensor<32xbf16>)
      latent_up(%latent_up : tensor<64x32xbf16>) shared_gate(%shared_gate : tensor<10x64xbf16>)
      shared_up(%shared_up : tensor<10x64xbf16>) shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_float_with_scale(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                                %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xbf16>, %w2: tensor<4x64x96xbf16>,
                                %w2_scale: tensor<4x64x3xi8>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected no 'w2_scale' with float 'w2', got 'tensor<4x64x3xi8>'}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xbf16>) w2(%w2 : tensor<4x64x96xbf16>)
      w2_scale(%w2_scale : tensor<4x64x3xi8>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<swiglu>}
  return
}

// -----

func.func @moe_top_k_zero(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                          %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                          %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                          %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                          %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                          %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 1 <= 'top_k' <= 4, got 0}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 0 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_top_k_above(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x16xi8>, %w3: tensor<4x96x16xi8>, %w2: tensor<4x32x48xi8>,
                           %w1_scale: tensor<4x96x1xi8>, %w3_scale: tensor<4x96x1xi8>, %w2_scale: tensor<4x32x3xi8>,
                           %latent_down: tensor<32x64xbf16>, %latent_norm: tensor<32xbf16>,
                           %latent_up: tensor<64x32xbf16>, %shared_gate: tensor<10x64xbf16>,
                           %shared_up: tensor<10x64xbf16>, %shared_down: tensor<64x10xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected 1 <= 'top_k' <= 4, got 5}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x16xi8>) w3(%w3 : tensor<4x96x16xi8>) w2(%w2 : tensor<4x32x48xi8>)
      w1_scale(%w1_scale : tensor<4x96x1xi8>) w3_scale(%w3_scale : tensor<4x96x1xi8>)
      w2_scale(%w2_scale : tensor<4x32x3xi8>) latent_down(%latent_down : tensor<32x64xbf16>)
      latent_norm(%latent_norm : tensor<32xbf16>) latent_up(%latent_up : tensor<64x32xbf16>)
      shared_gate(%shared_gate : tensor<10x64xbf16>) shared_up(%shared_up : tensor<10x64xbf16>)
      shared_down(%shared_down : tensor<64x10xbf16>)
      {top_k = 5 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64, eps = 1.0e-05 : f64}
  return
}

// -----

func.func @moe_swiglu_beta(%x: tensor<?x64xf32>, %router: tensor<4x64xbf16>, %bias: tensor<4xf32>,
                           %w1: tensor<4x96x64xbf16>, %w3: tensor<4x96x64xbf16>, %w2: tensor<4x64x96xbf16>) {
  // expected-error @+1 {{'k3.latent_moe.block' op expected no 'linear_beta' with swiglu, got 2.000000e+00}}
  %0 = k3.latent_moe.block %x : tensor<?x64xf32> router(%router : tensor<4x64xbf16>) bias(%bias : tensor<4xf32>)
      w1(%w1 : tensor<4x96x64xbf16>) w3(%w3 : tensor<4x96x64xbf16>) w2(%w2 : tensor<4x64x96xbf16>)
      {top_k = 2 : i64, renormalize = true, scale = 1.0 : f64, activation = #k3.activation<swiglu>, linear_beta = 2.0 : f64}
  return
}
