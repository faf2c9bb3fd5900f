// RUN: k3-opt %s --k3-expand-model-ops --split-input-file --verify-diagnostics

func.func @bf16_activations(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  // expected-error@+1 {{'k3.mlp' op expected f32 activations, got 'tensor<?x8xbf16>'}}
  %0 = k3.mlp %x : tensor<?x8xbf16> gate_proj(%w : tensor<8x8xbf16>) up_proj(%w : tensor<8x8xbf16>)
      down_proj(%w : tensor<8x8xbf16>) {activation = #k3.activation<swiglu>}
  return %0 : tensor<?x8xbf16>
}

// -----

func.func @dynamic_features(%x: tensor<?x?xf32>, %w: tensor<8x8xbf16>) -> tensor<?x?xf32> {
  // expected-error@+1 {{'k3.mlp' op expected a static number of features, got 'tensor<?x?xf32>'}}
  %0 = k3.mlp %x : tensor<?x?xf32> gate_proj(%w : tensor<8x8xbf16>) up_proj(%w : tensor<8x8xbf16>)
      down_proj(%w : tensor<8x8xbf16>) {activation = #k3.activation<swiglu>}
  return %0 : tensor<?x?xf32>
}

// -----

func.func @dynamic_weight(%x: tensor<?x8xf32>, %w: tensor<?x8xbf16>, %d: tensor<8x?xbf16>) -> tensor<?x8xf32> {
  // expected-error@+1 {{'k3.mlp' op expected weights of static shape, got 'tensor<?x8xbf16>'}}
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%w : tensor<?x8xbf16>) up_proj(%w : tensor<?x8xbf16>)
      down_proj(%d : tensor<8x?xbf16>) {activation = #k3.activation<swiglu>}
  return %0 : tensor<?x8xf32>
}

// -----

func.func @state_rows_of_keys(%x: tensor<?x8xf32>, %seq: !k3.seq, %c: !k3.conv_state<8 x 3, f32>,
    %s: !k3.kda_state<2 x 4 x 4, f32, row = key>, %w: tensor<8x8xbf16>, %wb: tensor<2x8xbf16>, %k: tensor<8x4xf32>,
    %dt: tensor<8xf32>, %on: tensor<4xf32>, %a: tensor<2xf32>) -> tensor<?x8xf32> {
  // expected-error@+1 {{'k3.kda.attention' op expected a state with row = value, got '!k3.kda_state<2 x 4 x 4, f32, row = key>'}}
  %y, %c0, %c1, %c2, %s1 = k3.kda.attention %x : tensor<?x8xf32> sizes(heads = 2, key_dim = 4, value_dim = 4)
      seq(%seq : !k3.seq) q_conv_state(%c : <8 x 3, f32>) k_conv_state(%c : <8 x 3, f32>) v_conv_state(%c : <8 x 3, f32>)
      state(%s : <2 x 4 x 4, f32, row = key>) q_proj(%w : tensor<8x8xbf16>) k_proj(%w : tensor<8x8xbf16>)
      v_proj(%w : tensor<8x8xbf16>) b_proj(%wb : tensor<2x8xbf16>) q_conv1d(%k : tensor<8x4xf32>)
      k_conv1d(%k : tensor<8x4xf32>) v_conv1d(%k : tensor<8x4xf32>) dt_bias(%dt : tensor<8xf32>) o_norm(%on : tensor<4xf32>) o_proj(%w : tensor<8x8xbf16>)
      f_a_proj(%w : tensor<8x8xbf16>) f_b_proj(%w : tensor<8x8xbf16>)
      a_log(%a : tensor<2xf32>) g_proj(%w : tensor<8x8xbf16>)
      {gate = #k3.gate_kind<softplus>, scale = 0.5 : f64, eps = 1.0e-05 : f64}
  return %y : tensor<?x8xf32>
}
