// RUN: k3-opt %s --k3-verify-stage=stage=import --k3-verify-stage=stage=model | FileCheck %s

// The least that passes: a model of no layers; functions without a phase are nobody's business.
// CHECK: module attributes
module attributes {
  k3.model = {name = "m", model_type = "kimi_k3", vocab_size = 32, hidden_size = 8, num_hidden_layers = 0, residual_slots = 1},
  k3.layers = []} {
  func.func @prefill_embed(%stream: tensor<1x?x8xf32> {k3.buffer = "stream", k3.dims = ["T"]}) -> tensor<1x?x8xf32> attributes {k3.phase = #k3.phase<prefill>} {
    return %stream : tensor<1x?x8xf32>
  }
  func.func @prefill_head() attributes {k3.phase = #k3.phase<prefill>} { return }
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} { return }
  func.func @helper(%x: tensor<8xf32>) { return }
}
