// RUN: k3-opt %s --k3-verify-stage=stage=fuse --split-input-file --verify-diagnostics

// The tables and functions are checked as in contract-import-invalid.mlir, ops and types as in contract-structured-invalid.mlir.

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<8x8xf32> {k3.weight = "w"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'arith.addf' op expected sums folded into products after stage fuse}}
    %0 = arith.addf %x, %x : tensor<2x8xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%s: tensor<1x2x8xf32> {k3.buffer = "stream"}, %x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<8x8xf32> {k3.weight = "w"}, %n: tensor<8xf32> {k3.weight = "n"}, %p: tensor<1x8xf32> {k3.weight = "p"}) attributes {k3.phase = #k3.phase<prefill>} {
    %c1 = arith.constant 1 : index
    %a = tensor.empty() : tensor<2x8xf32>
    %b = tensor.empty() : tensor<2x8xf32>
    %0 = k3.attn_res.mix ins(%s, %c1, %n, %p : tensor<1x2x8xf32>, index, tensor<8xf32>, tensor<1x8xf32>) outs(%a : tensor<2x8xf32>) {eps = 0.0 : f64} -> tensor<2x8xf32>
    // expected-error@+1 {{'k3.rms_norm' op expected norms folded into the mix before them after stage fuse}}
    %1 = k3.rms_norm ins(%0, %n : tensor<2x8xf32>, tensor<8xf32>) outs(%b : tensor<2x8xf32>) {eps = 0.0 : f64} -> tensor<2x8xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%s: tensor<1x2x8xf32> {k3.buffer = "stream"}, %x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<8x8xf32> {k3.weight = "w"}) attributes {k3.phase = #k3.phase<prefill>} {
    %c0 = arith.constant 0 : index
    %a = tensor.empty() : tensor<2x8xf32>
    %0 = k3.linear ins(%x, %w : tensor<2x8xf32>, tensor<8x8xf32>) outs(%a : tensor<2x8xf32>) -> tensor<2x8xf32>
    // expected-error@+1 {{'k3.attn_res.accumulate' op expected products written into the stream after stage fuse}}
    %1 = k3.attn_res.accumulate ins(%0, %c0 : tensor<2x8xf32>, index) outs(%s : tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %o: tensor<6xi32> {k3.weight = "o"}, %p: tensor<2x2xi32> {k3.weight = "p"}, %w: tensor<5x4x8xf32> {k3.weight = "w"}) attributes {k3.phase = #k3.phase<prefill>} {
    %a = tensor.empty() : tensor<2x2x4xf32>
    %b = tensor.empty() : tensor<4x4xf32>
    %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<2x8xf32>, tensor<6xi32>, tensor<2x2xi32>, tensor<5x4x8xf32>) outs(%a : tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
    %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x2x4xf32> into tensor<4x4xf32>
    // expected-error@+1 {{'k3.glu' op expected the gated unit of the experts inside their contraction after stage fuse}}
    %2 = k3.glu ins(%1, %1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%b : tensor<4x4xf32>) {activation = #k3.activation<swiglu>} -> tensor<4x4xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @decode_head(%q: tensor<2x2x4xf32> {k3.weight = "q"}, %b: tensor<2x2xf32> {k3.weight = "b"}, %i: tensor<2xi32> {k3.weight = "i"}, %cu: tensor<3xi32> {k3.weight = "cu"}, %s: tensor<5x2x4x4xf32> {k3.state = "kda"}) attributes {k3.phase = #k3.phase<decode>} {
    // expected-error@+1 {{'k3.kda.recurrent_step' op expected k3.kda.scan unsplit after stage fuse}}
    %0:2 = k3.kda.recurrent_step ins(%q, %q, %q, %b, %i : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<2xi32>) g(%q : tensor<2x2x4xf32>) outs(%q, %s : tensor<2x2x4xf32>, tensor<5x2x4x4xf32>) {scale = 1.0 : f64, l2norm = true, delta = true} -> tensor<2x2x4xf32>, tensor<5x2x4x4xf32>
    return
  }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
}
