// RUN: k3-opt %s --k3-narrow-activations | FileCheck %s

// The norm feeds two products that round; the second one's result goes through a reshape to a third.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %w: tensor<16x8xbf16>, %v: tensor<4x16xbf16>, %t: index)
    -> (tensor<?x16xf32>, tensor<?x4xf32>) {
  // CHECK: %[[NORM:.*]] = tensor.empty(%{{.*}}) : tensor<?x8xbf16>
  %a = tensor.empty(%t) : tensor<?x8xf32>
  // CHECK: %[[NORMED:.*]] = k3.rms_norm ins({{.*}}) outs(%[[NORM]] : tensor<?x8xbf16>) {{.*}}-> tensor<?x8xbf16>
  %0 = k3.rms_norm ins(%x, %g : tensor<?x8xf32>, tensor<8xf32>) outs(%a : tensor<?x8xf32>) {eps = 1.0e-5 : f64} -> tensor<?x8xf32>
  // CHECK: tensor.empty(%{{.*}}) : tensor<?x16xf32>
  %b = tensor.empty(%t) : tensor<?x16xf32>
  // CHECK: k3.linear ins(%[[NORMED]], %{{.*}} : tensor<?x8xbf16>, tensor<16x8xbf16>) outs(%{{.*}} : tensor<?x16xf32>)
  %1 = k3.linear ins(%0, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%b : tensor<?x16xf32>) {bf16_x} -> tensor<?x16xf32>
  // CHECK: %[[HEADS:.*]] = tensor.empty(%{{.*}}) : tensor<?x2x8xbf16>
  %c = tensor.empty(%t) : tensor<?x2x8xf32>
  // CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[HEADS]] {{.*}} : tensor<?x2x8xbf16> into tensor<?x16xbf16>
  %rows = tensor.collapse_shape %c [[0], [1, 2]] : tensor<?x2x8xf32> into tensor<?x16xf32>
  // CHECK: %[[SECOND:.*]] = k3.linear ins(%[[NORMED]], {{.*}}) outs(%[[ROWS]] : tensor<?x16xbf16>) {bf16_x} -> tensor<?x16xbf16>
  %2 = k3.linear ins(%0, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%rows : tensor<?x16xf32>) {bf16_x} -> tensor<?x16xf32>
  // CHECK: tensor.expand_shape %[[SECOND]] {{.*}} : tensor<?x16xbf16> into tensor<?x2x8xbf16>
  %s = tensor.expand_shape %2 [[0], [1, 2]] output_shape [%t, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
  // CHECK: tensor.collapse_shape {{.*}} : tensor<?x2x8xbf16> into tensor<?x16xbf16>
  %f = tensor.collapse_shape %s [[0], [1, 2]] : tensor<?x2x8xf32> into tensor<?x16xf32>
  %d = tensor.empty(%t) : tensor<?x4xf32>
  // CHECK: k3.linear ins(%{{.*}}, %{{.*}} : tensor<?x16xbf16>, tensor<4x16xbf16>) outs(%{{.*}} : tensor<?x4xf32>)
  %3 = k3.linear ins(%f, %v : tensor<?x16xf32>, tensor<4x16xbf16>) outs(%d : tensor<?x4xf32>) {bf16_x} -> tensor<?x4xf32>
  return %1, %3 : tensor<?x16xf32>, tensor<?x4xf32>
}

// One reader takes it as it is.
// CHECK-LABEL: func.func @other_reader
// CHECK-NOT: x8xbf16> into
// CHECK: k3.rms_norm {{.*}}-> tensor<?x8xf32>
func.func @other_reader(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %w: tensor<16x8xbf16>, %t: index)
    -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %a = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.rms_norm ins(%x, %g : tensor<?x8xf32>, tensor<8xf32>) outs(%a : tensor<?x8xf32>) {eps = 1.0e-5 : f64} -> tensor<?x8xf32>
  %b = tensor.empty(%t) : tensor<?x16xf32>
  %1 = k3.linear ins(%0, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%b : tensor<?x16xf32>) {bf16_x} -> tensor<?x16xf32>
  %c = tensor.empty(%t) : tensor<?x16xf32>
  %2 = k3.linear ins(%0, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%c : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %1, %2 : tensor<?x16xf32>, tensor<?x16xf32>
}

// A slice of the stream, a destination that is added to, a weight.
// CHECK-LABEL: func.func @other_destinations
// CHECK-COUNT-2: k3.linear {{.*}}-> tensor<?x8xf32>
func.func @other_destinations(%x: tensor<?x8xbf16>, %y: tensor<?x8xf32>, %w: tensor<8x8xbf16>, %stream: tensor<2x?x8xf32>, %t: index)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %slot = tensor.extract_slice %stream[1, 0, 0] [1, %t, 8] [1, 1, 1] : tensor<2x?x8xf32> to tensor<?x8xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x8xbf16>, tensor<8x8xbf16>) outs(%slot : tensor<?x8xf32>) {bf16_x} -> tensor<?x8xf32>
  %1 = k3.linear ins(%x, %w : tensor<?x8xbf16>, tensor<8x8xbf16>) outs(%y : tensor<?x8xf32>) {accumulate, bf16_x} -> tensor<?x8xf32>
  %a = tensor.empty(%t) : tensor<?x8xf32>
  %2 = k3.linear ins(%0, %w : tensor<?x8xf32>, tensor<8x8xbf16>) outs(%a : tensor<?x8xf32>) {bf16_x} -> tensor<?x8xf32>
  %b = tensor.empty(%t) : tensor<?x8xf32>
  %3 = k3.linear ins(%1, %w : tensor<?x8xf32>, tensor<8x8xbf16>) outs(%b : tensor<?x8xf32>) {bf16_x} -> tensor<?x8xf32>
  return %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>
}

// A decoding KDA layer, of which only the output is read by products.
// CHECK-LABEL: func.func @decode_step
// CHECK: k3.kda.decode_step {{.*}}-> tensor<?x4x16xbf16>, tensor<?x4x16x8xf32>,
// CHECK: k3.linear ins(%{{.*}}, %{{.*}} : tensor<?x64xbf16>, tensor<8x64xbf16>)
func.func @decode_step(%q: tensor<?x32xf32>, %v: tensor<?x64xf32>, %z: tensor<?x4x8xf32>, %beta: tensor<?x4xf32>,
                       %gate: tensor<?x4x16xf32>, %qw: tensor<32x4xbf16>, %vw: tensor<64x4xbf16>, %dt_bias: tensor<4x8xf32>,
                       %nw: tensor<16xbf16>, %slots: tensor<?xi32>, %a_log: tensor<4xf32>, %w: tensor<8x64xbf16>,
                       %state: tensor<?x4x16x8xf32>, %cq: tensor<?x3x32xbf16>, %ck: tensor<?x3x32xbf16>,
                       %cv: tensor<?x3x64xbf16>, %t: index)
    -> (tensor<?x8xf32>, tensor<?x4x16x8xf32>) {
  %out = tensor.empty(%t) : tensor<?x4x16xf32>
  %0:5 = k3.kda.decode_step ins(%q, %q, %v, %z, %beta, %gate, %qw, %qw, %vw, %dt_bias, %nw, %slots
      : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x64xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>,
        tensor<32x4xbf16>, tensor<32x4xbf16>, tensor<64x4xbf16>, tensor<4x8xf32>, tensor<16xbf16>, tensor<?xi32>)
      a_log(%a_log : tensor<4xf32>)
      outs(%out, %state, %cq, %ck, %cv
        : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xbf16>, tensor<?x3x32xbf16>, tensor<?x3x64xbf16>)
      {kind = #k3.gate_kind<softplus>, scale = 0.25 : f64, l2norm = true, delta = true, eps = 1.0e-05 : f64}
      -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xbf16>, tensor<?x3x32xbf16>, tensor<?x3x64xbf16>
  %rows = tensor.collapse_shape %0#0 [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
  %y = tensor.empty(%t) : tensor<?x8xf32>
  %1 = k3.linear ins(%rows, %w : tensor<?x64xf32>, tensor<8x64xbf16>) outs(%y : tensor<?x8xf32>) {bf16_x} -> tensor<?x8xf32>
  return %1, %0#1 : tensor<?x8xf32>, tensor<?x4x16x8xf32>
}
