// RUN: k3-opt %s --k3-verify-stage=stage=import --split-input-file --verify-diagnostics

// expected-error@+1 {{expected a dictionary 'k3.model', got none}}
module {
}

// -----

// expected-error@+1 {{expected a string 'model_type' in k3.model, got none}}
module attributes {k3.model = {name = "m"}} {
}

// -----

// expected-error@+1 {{expected an integer 'hidden_size' in k3.model, got "8"}}
module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = "8", num_hidden_layers = 1, residual_slots = 1}} {
}

// -----

// expected-error@+1 {{expected an array 'k3.layers', got none}}
module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 1, residual_slots = 1}} {
}

// -----

// expected-error@+1 {{expected 2 entries in 'k3.layers', got 1}}
module attributes {
  k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 2, residual_slots = 1},
  k3.layers = [{kind = "kda_moe", sources = 1, slot = 0, mlp_sources = 1}]} {
}

// -----

// expected-error@+1 {{expected an integer 'slot' in k3.layers[0], got none}}
module attributes {
  k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 1, residual_slots = 1},
  k3.layers = [{kind = "kda_moe", sources = 1, mlp_sources = 1}]} {
}

// -----

// expected-error@+1 {{expected 0 <= 'slot' <= 1 in k3.layers[0], got 2}}
module attributes {
  k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 1, residual_slots = 2},
  k3.layers = [{kind = "kda_moe", sources = 1, slot = 2, mlp_sources = 2}]} {
}

// -----

// expected-error@+1 {{expected a function 'prefill_embed', got none}}
module attributes {
  k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 1, residual_slots = 1},
  k3.layers = [{kind = "kda_moe", sources = 1, slot = 0, mlp_sources = 1}]} {
}

// -----

#model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}
module attributes {k3.model = #model, k3.layers = []} {
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  // expected-error@+1 {{expected a name 'prefill_' and 'embed', 'layer_KIND' or 'head', got 'decode_head'}}
  func.func @decode_head() attributes {k3.phase = #k3.phase<prefill>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected a role ('k3.weight', 'k3.state', 'k3.buffer', 'k3.input', 'k3.output' or 'k3.scalar') of argument #0, got none}}
  func.func @prefill_embed(%x: tensor<8xf32>) attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected one role of argument #0, got 'k3.weight' and 'k3.state'}}
  func.func @prefill_embed(%x: tensor<8xf32> {k3.weight = "w", k3.state = "kda"}) attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected 'k3.dims' of argument #0 to name 1 dimensions of 'tensor<?xi32>', got 0}}
  func.func @prefill_embed(%x: tensor<?xi32> {k3.input = "tokens"}) attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected 'k3.dims' of argument #0 to be T, N, N+1, C, R, S, P or M, got "Q"}}
  func.func @prefill_embed(%x: tensor<?xi32> {k3.input = "tokens", k3.dims = ["Q"]}) attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  // expected-error@+1 {{expected to return its buffers and states, 'tensor<1x?x8xf32>', got 'tensor<8xf32>'}}
  func.func @prefill_embed(%x: tensor<1x?x8xf32> {k3.buffer = "stream", k3.dims = ["T"]}, %w: tensor<8xf32> {k3.weight = "w"}) -> tensor<8xf32> attributes {k3.phase = #k3.phase<prefill>} {
    return %w : tensor<8xf32>
  }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}

// -----

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<4x8xf32> {k3.weight = "w"}, %o: tensor<2x4xf32> {k3.output = "logits"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'k3.linear' op expected only model ops, norms, the residual stream and shapes after stage import}}
    %0 = k3.linear ins(%x, %w : tensor<2x8xf32>, tensor<4x8xf32>) outs(%o : tensor<2x4xf32>) -> tensor<2x4xf32>
    return
  }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}
