// RUN: k3-opt %s --k3-dedup-kernels | FileCheck %s

// Equal but for name and location: one kernel for both callers.
// CHECK-LABEL: func.func @prefill_head
// CHECK: call @linear(
// CHECK: call @linear(
// CHECK: call @accumulate(
func.func @prefill_head(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    attributes {k3.phase = #k3.phase<prefill>} {
  %0 = call @linear(%x, %w, %y) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = call @linear_2(%x, %w, %z) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = call @accumulate(%x, %w, %1) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
// CHECK-LABEL: func.func @decode_head
// CHECK: call @linear(
// CHECK: call @table(
func.func @decode_head(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  %0 = call @linear_3(%x, %w, %y) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = call @table(%x, %w, %0) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
// CHECK: func.func private @linear(
func.func private @linear(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// CHECK-NOT: @linear_2
// CHECK-NOT: @linear_3
func.func private @linear_2(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @linear_3(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// Another attribute of the root: another kernel.
// CHECK: func.func private @accumulate(
func.func private @accumulate(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%y : tensor<4x8xf32>) {accumulate} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// Another kind of argument: another kernel.
// CHECK: func.func private @table(
func.func private @table(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {k3.expert_group}, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
