// RUN: k3-opt %s --k3-fuse-kda-decode --remarks-filter=k3-fuse-kda-decode --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// REMARK: [Passed] DecodeStep | Category:k3-fuse-kda-decode | Function=decode
// REMARK-NOT: DecodeStep

// What is between the projections and the output projection is one op, with five states and outputs.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<?x8xf32>, %[[K:[a-z0-9]+]]: tensor<?x8xf32>, %[[V:[a-z0-9]+]]: tensor<?x12xf32>
// CHECK-NOT: k3.kda.short_conv
// CHECK: %[[R:.*]]:5 = k3.kda.decode_step ins(%[[Q]], %[[K]], %[[V]],
// CHECK-SAME: a_log(%arg13 : tensor<2xf32>)
// CHECK-SAME: {delta = true, eps = 1.000000e-05 : f64, kind = #k3.gate_kind<bounded_sigmoid>, l2norm = true, lower_bound = -5.000000e+00 : f64, scale = 5.000000e-01 : f64}
// CHECK-NOT: k3.
// CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2, %[[R]]#3, %[[R]]#4
func.func @decode(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x12xf32>, %z: tensor<?x2x4xf32>, %beta: tensor<?x2xf32>,
    %gate: tensor<?x2x6xf32>, %qw: tensor<8x4xf32>, %kw: tensor<8x4xf32>, %vw: tensor<12x4xf32>, %bias: tensor<2x4xf32>,
    %nw: tensor<6xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %a: tensor<2xf32>, %s: tensor<?x2x6x4xf32>,
    %cq: tensor<?x3x8xf32>, %ck: tensor<?x3x8xf32>, %cv: tensor<?x3x12xf32>, %n: index)
    -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x12xf32>)
    attributes {k3.phase = #k3.phase<decode>} {
  %e0 = tensor.empty(%n) : tensor<?x8xf32>
  %q1:2 = k3.kda.short_conv ins(%q, %qw, %cu, %slots : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%e0, %cq : tensor<?x8xf32>, tensor<?x3x8xf32>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xf32>
  %e1 = tensor.empty(%n) : tensor<?x8xf32>
  %k1:2 = k3.kda.short_conv ins(%k, %kw, %cu, %slots : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%e1, %ck : tensor<?x8xf32>, tensor<?x3x8xf32>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xf32>
  %e2 = tensor.empty(%n) : tensor<?x12xf32>
  %v1:2 = k3.kda.short_conv ins(%v, %vw, %cu, %slots : tensor<?x12xf32>, tensor<12x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%e2, %cv : tensor<?x12xf32>, tensor<?x3x12xf32>) {silu = true} -> tensor<?x12xf32>, tensor<?x3x12xf32>
  %qh = tensor.expand_shape %q1#0 [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  %kh = tensor.expand_shape %k1#0 [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  %vh = tensor.expand_shape %v1#0 [[0], [1, 2]] output_shape [%n, 2, 6] : tensor<?x12xf32> into tensor<?x2x6xf32>
  %e3 = tensor.empty(%n) : tensor<?x2x4xf32>
  %g = k3.kda.gate ins(%z, %bias : tensor<?x2x4xf32>, tensor<2x4xf32>) a_log(%a : tensor<2xf32>) outs(%e3 : tensor<?x2x4xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x2x4xf32>
  %e4 = tensor.empty(%n) : tensor<?x2x6xf32>
  %o:2 = k3.kda.recurrent_step ins(%qh, %kh, %vh, %beta, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>) outs(%e4, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  %e5 = tensor.empty(%n) : tensor<?x2x6xf32>
  %y = k3.kda.gated_norm ins(%o#0, %gate, %nw : tensor<?x2x6xf32>, tensor<?x2x6xf32>, tensor<6xf32>) outs(%e5 : tensor<?x2x6xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2x6xf32>
  return %y, %o#1, %q1#1, %k1#1, %v1#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x12xf32>
}

// A convolution whose output is used twice stays, and so does all the rest.
// CHECK-LABEL: func.func @used_twice(
// CHECK-COUNT-3: k3.kda.short_conv
// CHECK: k3.kda.recurrent_step
// CHECK-NOT: k3.kda.decode_step
func.func @used_twice(%q: tensor<?x8xf32>, %v: tensor<?x12xf32>, %z: tensor<?x2x4xf32>, %beta: tensor<?x2xf32>,
    %gate: tensor<?x2x6xf32>, %qw: tensor<8x4xf32>, %vw: tensor<12x4xf32>, %bias: tensor<2x4xf32>,
    %nw: tensor<6xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %a: tensor<2xf32>, %s: tensor<?x2x6x4xf32>,
    %cq: tensor<?x3x8xf32>, %ck: tensor<?x3x8xf32>, %cv: tensor<?x3x12xf32>, %n: index)
    -> (tensor<?x2x6xf32>, tensor<?x8xf32>, tensor<?x2x6x4xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x12xf32>)
    attributes {k3.phase = #k3.phase<decode>} {
  %e0 = tensor.empty(%n) : tensor<?x8xf32>
  %q1:2 = k3.kda.short_conv ins(%q, %qw, %cu, %slots : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%e0, %cq : tensor<?x8xf32>, tensor<?x3x8xf32>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xf32>
  %e1 = tensor.empty(%n) : tensor<?x8xf32>
  %k1:2 = k3.kda.short_conv ins(%q, %qw, %cu, %slots : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%e1, %ck : tensor<?x8xf32>, tensor<?x3x8xf32>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xf32>
  %e2 = tensor.empty(%n) : tensor<?x12xf32>
  %v1:2 = k3.kda.short_conv ins(%v, %vw, %cu, %slots : tensor<?x12xf32>, tensor<12x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%e2, %cv : tensor<?x12xf32>, tensor<?x3x12xf32>) {silu = true} -> tensor<?x12xf32>, tensor<?x3x12xf32>
  %qh = tensor.expand_shape %q1#0 [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  %kh = tensor.expand_shape %k1#0 [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  %vh = tensor.expand_shape %v1#0 [[0], [1, 2]] output_shape [%n, 2, 6] : tensor<?x12xf32> into tensor<?x2x6xf32>
  %e3 = tensor.empty(%n) : tensor<?x2x4xf32>
  %g = k3.kda.gate ins(%z, %bias : tensor<?x2x4xf32>, tensor<2x4xf32>) a_log(%a : tensor<2xf32>) outs(%e3 : tensor<?x2x4xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x2x4xf32>
  %e4 = tensor.empty(%n) : tensor<?x2x6xf32>
  %o:2 = k3.kda.recurrent_step ins(%qh, %kh, %vh, %beta, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>) outs(%e4, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  %e5 = tensor.empty(%n) : tensor<?x2x6xf32>
  %y = k3.kda.gated_norm ins(%o#0, %gate, %nw : tensor<?x2x6xf32>, tensor<?x2x6xf32>, tensor<6xf32>) outs(%e5 : tensor<?x2x6xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2x6xf32>
  return %y, %q1#0, %o#1, %q1#1, %k1#1, %v1#1 : tensor<?x2x6xf32>, tensor<?x8xf32>, tensor<?x2x6x4xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x12xf32>
}
