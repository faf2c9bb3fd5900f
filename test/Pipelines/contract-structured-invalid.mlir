// RUN: k3-opt %s --k3-verify-stage=stage=structured --split-input-file --verify-diagnostics

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<8x8xf32> {k3.weight = "w"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'k3.mlp' op expected only structured ops, tensor shapes and slices, and arith after stage structured}}
    %0 = k3.mlp %x : tensor<2x8xf32> gate_proj(%w : tensor<8x8xf32>) up_proj(%w : tensor<8x8xf32>) down_proj(%w : tensor<8x8xf32>) {activation = #k3.activation<swiglu>}
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected only tensors and scalars after stage structured, got '!k3.conv_state<8 x 3, f32>'}}
  func.func @prefill_head(%s: !k3.conv_state<8 x 3, f32> {k3.state = "conv_q"}) attributes {k3.phase = #k3.phase<prefill>} {
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected only tensors and scalars after stage structured, got '!k3.seq'}}
  func.func @prefill_head(%s: !k3.seq {k3.input = "cu"}) attributes {k3.phase = #k3.phase<prefill>} {
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%i: tensor<2xi32> {k3.weight = "i"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'builtin.unrealized_conversion_cast' op expected only structured ops, tensor shapes and slices, and arith after stage structured}}
    %0 = builtin.unrealized_conversion_cast %i : tensor<2xi32> to !k3.seq
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

// A destination of two ops would be overwritten while it is read; CSE makes these.
module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<8x8xf32> {k3.weight = "w"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'tensor.empty' op expected a tensor.empty to be the destination of one op after stage structured, got 2 uses}}
    %e = tensor.empty() : tensor<2x8xf32>
    %0 = k3.linear ins(%x, %w : tensor<2x8xf32>, tensor<8x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
    %1 = k3.linear ins(%x, %w : tensor<2x8xf32>, tensor<8x8xf32>) outs(%e : tensor<2x8xf32>) -> tensor<2x8xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @decode_head(%q: tensor<2x2x4xf32> {k3.weight = "q"}, %b: tensor<2x2xf32> {k3.weight = "b"}, %i: tensor<2xi32> {k3.weight = "i"}, %cu: tensor<3xi32> {k3.weight = "cu"}, %s: tensor<5x2x4x4xf32> {k3.state = "kda"}) attributes {k3.phase = #k3.phase<decode>} {
    // expected-error@+1 {{'k3.kda.recurrent_step' op expected k3.kda.scan unsplit after stage structured}}
    %0:2 = k3.kda.recurrent_step ins(%q, %q, %q, %b, %i : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<2xi32>) g(%q : tensor<2x2x4xf32>) outs(%q, %s : tensor<2x2x4xf32>, tensor<5x2x4x4xf32>) {scale = 1.0 : f64, l2norm = true, delta = true} -> tensor<2x2x4xf32>, tensor<5x2x4x4xf32>
    return
  }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
}
