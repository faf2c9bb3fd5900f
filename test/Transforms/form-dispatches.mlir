// RUN: k3-opt %s --k3-form-dispatches --split-input-file | FileCheck %s
// RUN: k3-opt %s --k3-form-dispatches --split-input-file | k3-opt --split-input-file --verify-roundtrip -o /dev/null

// Views of operands move into the kernel; the caller passes arguments, new destinations and results of calls.
// CHECK-LABEL: func.func @prefill_layer_a
// CHECK-SAME: (%[[X:.*]]: tensor<?x32xf32> {{.*}}, %[[W:.*]]: tensor<32x32xbf16> {{.*}}, %[[NORM:.*]]: tensor<8xf32> {{.*}}, %[[STREAM:.*]]: tensor<2x?x32xf32> {{.*}}, %[[SLOT:.*]]: index
func.func @prefill_layer_a(
    %x: tensor<?x32xf32> {k3.buffer = "x", k3.dims = ["T"]}, %w: tensor<32x32xbf16> {k3.weight = "w"},
    %norm: tensor<8xf32> {k3.weight = "norm"}, %stream: tensor<2x?x32xf32> {k3.buffer = "stream", k3.dims = ["T"]},
    %slot: index {k3.scalar = "slot"}) -> tensor<2x?x32xf32> attributes {k3.phase = #k3.phase<prefill>} {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x32xf32>
  // CHECK: %[[T:.*]] = tensor.dim %[[X]]
  // CHECK: %[[E0:.*]] = tensor.empty(%[[T]]) : tensor<?x32xf32>
  // CHECK: %[[GATE:.*]] = call @linear_32x32_bf16(%[[X]], %[[W]], %[[E0]])
  %e = tensor.empty(%t) : tensor<?x32xf32>
  %gate = k3.linear ins(%x, %w : tensor<?x32xf32>, tensor<32x32xbf16>) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  // A destination that CSE has joined with another one is its own buffer again.
  // CHECK: %[[E1:.*]] = tensor.empty(%[[T]]) : tensor<?x32xf32>
  // CHECK: %[[Q:.*]] = call @linear_32x32_bf16_2(%[[X]], %[[W]], %[[E1]])
  %q = k3.linear ins(%x, %w : tensor<?x32xf32>, tensor<32x32xbf16>) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %heads = tensor.expand_shape %q [[0], [1, 2]] output_shape [%t, 4, 8] : tensor<?x32xf32> into tensor<?x4x8xf32>
  %gates = tensor.expand_shape %gate [[0], [1, 2]] output_shape [%t, 4, 8] : tensor<?x32xf32> into tensor<?x4x8xf32>
  // CHECK: %[[E2:.*]] = tensor.empty(%[[T]]) : tensor<?x4x8xf32>
  // CHECK: %[[NORMED:.*]] = call @kda_gated_norm_8_f32(%[[Q]], %[[GATE]], %[[NORM]], %[[E2]])
  %e3 = tensor.empty(%t) : tensor<?x4x8xf32>
  %normed = k3.kda.gated_norm ins(%heads, %gates, %norm : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>)
      outs(%e3 : tensor<?x4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<?x4x8xf32>
  %flat = tensor.collapse_shape %normed [[0], [1, 2]] : tensor<?x4x8xf32> into tensor<?x32xf32>
  // The slice of a destination and the way back move, too; the slot is a scalar.
  // CHECK: %[[RESULT:.*]] = call @linear_32x32_bf16_3(%[[NORMED]], %[[W]], %[[SLOT]], %[[STREAM]])
  // CHECK-NEXT: return %[[RESULT]]
  %part = tensor.extract_slice %stream[%slot, 0, 0] [1, %t, 32] [1, 1, 1] : tensor<2x?x32xf32> to tensor<?x32xf32>
  %sum = k3.linear ins(%flat, %w : tensor<?x32xf32>, tensor<32x32xbf16>) outs(%part : tensor<?x32xf32>) {accumulate} -> tensor<?x32xf32>
  %out = tensor.insert_slice %sum into %stream[%slot, 0, 0] [1, %t, 32] [1, 1, 1] : tensor<?x32xf32> into tensor<2x?x32xf32>
  return %out : tensor<2x?x32xf32>
}

// CHECK-LABEL: func.func private @linear_32x32_bf16(
// CHECK-SAME: %[[A:.*]]: tensor<?x32xf32>, %[[B:.*]]: tensor<32x32xbf16>, %[[C:.*]]: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {k3.kernel, k3.source_op = "k3.linear"}
// CHECK-NEXT: %[[R:.*]] = k3.linear ins(%[[A]], %[[B]] : {{.*}}) outs(%[[C]] : {{.*}})
// CHECK-NEXT: return %[[R]]

// CHECK-LABEL: func.func private @kda_gated_norm_8_f32(
// CHECK-SAME: %[[A:.*]]: tensor<?x32xf32>, %[[B:.*]]: tensor<?x32xf32>, %[[C:.*]]: tensor<8xf32>, %[[D:.*]]: tensor<?x4x8xf32>)
// CHECK: %[[T:.*]] = tensor.dim %[[A]]
// CHECK: %[[A3:.*]] = tensor.expand_shape %[[A]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 4, 8]
// CHECK: %[[B3:.*]] = tensor.expand_shape %[[B]] {{\[\[0\], \[1, 2\]\]}} output_shape [%[[T]], 4, 8]
// CHECK: k3.kda.gated_norm ins(%[[A3]], %[[B3]], %[[C]] : {{.*}}) outs(%[[D]] :

// CHECK-LABEL: func.func private @linear_32x32_bf16_3(
// CHECK-SAME: %[[A:.*]]: tensor<?x4x8xf32>, %[[B:.*]]: tensor<32x32xbf16>, %[[S:.*]]: index, %[[D:.*]]: tensor<2x?x32xf32>) -> tensor<2x?x32xf32>
// CHECK: %[[A2:.*]] = tensor.collapse_shape %[[A]]
// CHECK: %[[T:.*]] = tensor.dim %[[A]]
// CHECK: %[[P:.*]] = tensor.extract_slice %[[D]][%[[S]], 0, 0] [1, %[[T]], 32] [1, 1, 1]
// CHECK: %[[R:.*]] = k3.linear ins(%[[A2]], %[[B]] : {{.*}}) outs(%[[P]] : {{.*}}) {accumulate}
// CHECK: %[[I:.*]] = tensor.insert_slice %[[R]] into %[[D]][%[[S]], 0, 0] [1, %[[T]], 32] [1, 1, 1]
// CHECK: return %[[I]]

// -----

// States are destinations; a size that no argument of the kernel has becomes a scalar; expert tables stay marked.
// CHECK-LABEL: func.func @decode_layer_b
// CHECK-SAME: %[[STATE:[^ ]*]]: tensor<?x3x32xf32>
// CHECK: %[[N:.*]] = tensor.dim %{{.*}}, %{{.*}} : tensor<?xi32>
// CHECK: %[[R:.*]]:2 = call @kda_short_conv_32x4_f32(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[STATE]]) :
// CHECK: call @rms_norm_8_f32(%{{.*}}, %{{.*}}, %[[N]], %{{.*}})
// CHECK: return %[[R]]#1
func.func @decode_layer_b(
    %x: tensor<?x32xf32> {k3.buffer = "x", k3.dims = ["T"]}, %w: tensor<32x4xf32> {k3.weight = "conv"},
    %cu: tensor<?xi32> {k3.input = "cu", k3.dims = ["N+1"]}, %slots: tensor<?xi32> {k3.input = "slots", k3.dims = ["N"]},
    %norm: tensor<8xf32> {k3.weight = "norm"}, %ids: tensor<?xi32> {k3.buffer = "offsets", k3.dims = ["T"]},
    %experts: tensor<3x8x8xbf16> {k3.weight = "experts", k3.expert_group},
    %state: tensor<?x3x32xf32> {k3.state = "conv_q", k3.dims = ["S"]}) -> tensor<?x3x32xf32>
    attributes {k3.phase = #k3.phase<decode>} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %t = tensor.dim %x, %c0 : tensor<?x32xf32>
  %n = tensor.dim %slots, %c0 : tensor<?xi32>
  %e = tensor.empty(%t) : tensor<?x32xf32>
  %conv:2 = k3.kda.short_conv ins(%x, %w, %cu, %slots : tensor<?x32xf32>, tensor<32x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%e, %state : tensor<?x32xf32>, tensor<?x3x32xf32>) {silu = true} -> tensor<?x32xf32>, tensor<?x3x32xf32>
  %first = tensor.extract_slice %conv#0[0, 0] [%n, 8] [1, 1] : tensor<?x32xf32> to tensor<?x8xf32>
  %e8 = tensor.empty(%t) : tensor<?x8xf32>
  %normed = k3.rms_norm ins(%first, %norm : tensor<?x8xf32>, tensor<8xf32>) outs(%e8 : tensor<?x8xf32>) {eps = 1.0e-5 : f64} -> tensor<?x8xf32>
  return %conv#1 : tensor<?x3x32xf32>
}

// -----

// CHECK-LABEL: func.func private @latent_moe_grouped_contract_3x8x8_bf16(
// CHECK-SAME: tensor<?x8xf32>, %{{.*}}: tensor<4xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<3x8x8xbf16> {k3.expert_group}, %{{.*}}: tensor<?x2x8xf32>)
func.func @prefill_layer_c(
    %x: tensor<?x8xf32> {k3.buffer = "x", k3.dims = ["T"]}, %offsets: tensor<4xi32> {k3.buffer = "offsets"},
    %perm: tensor<?x2xi32> {k3.buffer = "perm", k3.dims = ["T"]},
    %experts: tensor<3x8x8xbf16> {k3.weight = "experts", k3.expert_group},
    %y: tensor<?x2x8xf32> {k3.buffer = "y", k3.dims = ["T"]}) -> tensor<?x2x8xf32>
    attributes {k3.phase = #k3.phase<prefill>} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %experts : tensor<?x8xf32>, tensor<4xi32>, tensor<?x2xi32>, tensor<3x8x8xbf16>)
      outs(%y : tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  return %0 : tensor<?x2x8xf32>
}
