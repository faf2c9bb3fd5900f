// RUN: k3-opt %s --k3-verify-stage=stage=chunk --split-input-file --verify-diagnostics

// The tables and functions are checked as in contract-import-invalid.mlir, ops and types as in contract-structured-invalid.mlir.

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%q: tensor<2x2x4xf32> {k3.weight = "q"}, %b: tensor<2x2xf32> {k3.weight = "b"}, %i: tensor<2xi32> {k3.weight = "i"}, %cu: tensor<3xi32> {k3.weight = "cu"}, %s: tensor<5x2x4x4xf32> {k3.state = "kda"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'k3.kda.scan' op expected k3.kda.chunk_prepare and k3.kda.chunk_scan in prefill after stage chunk}}
    %0:2 = k3.kda.scan ins(%q, %q, %q, %b, %cu, %i : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<3xi32>, tensor<2xi32>) g(%q : tensor<2x2x4xf32>) outs(%q, %s : tensor<2x2x4xf32>, tensor<5x2x4x4xf32>) {scale = 1.0 : f64, l2norm = true, delta = true} -> tensor<2x2x4xf32>, tensor<5x2x4x4xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @decode_head(%q: tensor<2x2x4xf32> {k3.weight = "q"}, %b: tensor<2x2xf32> {k3.weight = "b"}, %i: tensor<2xi32> {k3.weight = "i"}, %cu: tensor<3xi32> {k3.weight = "cu"}, %s: tensor<5x2x4x4xf32> {k3.state = "kda"}) attributes {k3.phase = #k3.phase<decode>} {
    // expected-error@+1 {{'k3.kda.scan' op expected k3.kda.recurrent_step in decode after stage chunk}}
    %0:2 = k3.kda.scan ins(%q, %q, %q, %b, %cu, %i : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<3xi32>, tensor<2xi32>) g(%q : tensor<2x2x4xf32>) outs(%q, %s : tensor<2x2x4xf32>, tensor<5x2x4x4xf32>) {scale = 1.0 : f64, l2norm = true, delta = true} -> tensor<2x2x4xf32>, tensor<5x2x4x4xf32>
    return
  }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%q: tensor<2x2x4xf32> {k3.weight = "q"}, %b: tensor<2x2xf32> {k3.weight = "b"}, %i: tensor<2xi32> {k3.weight = "i"}, %cu: tensor<3xi32> {k3.weight = "cu"}, %s: tensor<5x2x4x4xf32> {k3.state = "kda"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'k3.kda.recurrent_step' op expected k3.kda.chunk_prepare and k3.kda.chunk_scan in prefill after stage chunk}}
    %0:2 = k3.kda.recurrent_step ins(%q, %q, %q, %b, %i : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<2xi32>) g(%q : tensor<2x2x4xf32>) outs(%q, %s : tensor<2x2x4xf32>, tensor<5x2x4x4xf32>) {scale = 1.0 : f64, l2norm = true, delta = true} -> tensor<2x2x4xf32>, tensor<5x2x4x4xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @decode_head(%q: tensor<2x2x4xf32> {k3.weight = "q"}, %b: tensor<2x2xf32> {k3.weight = "b"}, %i: tensor<2xi32> {k3.weight = "i"}, %cu: tensor<3xi32> {k3.weight = "cu"}, %s: tensor<5x2x4x4xf32> {k3.state = "kda"}, %c: tensor<1x2xi32> {k3.weight = "c"}) attributes {k3.phase = #k3.phase<decode>} {
    %e0 = tensor.empty() : tensor<1x2x16x4xf32>
    %e1 = tensor.empty() : tensor<1x2x16x4xf32>
    %e2 = tensor.empty() : tensor<1x2x16x4xf32>
    %e3 = tensor.empty() : tensor<1x2x16x4xf32>
    %e4 = tensor.empty() : tensor<1x2x16x16xf32>
    %e5 = tensor.empty() : tensor<1x2x4xf32>
    // expected-error@+1 {{'k3.kda.chunk_prepare' op expected k3.kda.recurrent_step in decode after stage chunk}}
    %0:6 = k3.kda.chunk_prepare ins(%q, %q, %q, %q, %b, %c : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2xf32>, tensor<1x2xi32>) outs(%e0, %e1, %e2, %e3, %e4, %e5 : tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x16xf32>, tensor<1x2x4xf32>) {scale = 1.0 : f64, l2norm = true, anchor = #k3.anchor<zero>} -> tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x4xf32>, tensor<1x2x16x16xf32>, tensor<1x2x4xf32>
    return
  }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<8x8xf32> {k3.weight = "w"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'arith.addf' op expected sums folded into products after stage chunk}}
    %0 = arith.addf %x, %x : tensor<2x8xf32>
    return
  }
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}
