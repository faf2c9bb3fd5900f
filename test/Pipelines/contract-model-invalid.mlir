// RUN: k3-opt %s --k3-verify-stage=stage=model --split-input-file --verify-diagnostics

// The tables and functions are checked as in contract-import-invalid.mlir.

module attributes {k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1}, k3.layers = []} {
  func.func @prefill_embed() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @prefill_head(%x: tensor<2x8xf32> {k3.weight = "x"}, %w: tensor<4x8xf32> {k3.weight = "w"}, %o: tensor<2x4xf32> {k3.output = "logits"}) attributes {k3.phase = #k3.phase<prefill>} {
    // expected-error@+1 {{'k3.linear' op expected only model ops, norms, the residual stream and shapes after stage model}}
    %0 = k3.linear ins(%x, %w : tensor<2x8xf32>, tensor<4x8xf32>) outs(%o : tensor<2x4xf32>) -> tensor<2x4xf32>
    return
  }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
}
