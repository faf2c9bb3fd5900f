// RUN: k3-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @no_rows
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<0x16xf32>
func.func @no_rows(%x: tensor<0x8xf32>, %weight: tensor<16x8xbf16>, %out: tensor<0x16xf32>) -> tensor<0x16xf32> {
  // CHECK-NEXT: return %[[OUT]]
  %0 = k3.linear ins(%x, %weight : tensor<0x8xf32>, tensor<16x8xbf16>) outs(%out : tensor<0x16xf32>) -> tensor<0x16xf32>
  return %0 : tensor<0x16xf32>
}

// Nothing to sum up is not nothing to write.
// CHECK-LABEL: func.func @no_inputs
func.func @no_inputs(%x: tensor<4x0xf32>, %weight: tensor<16x0xbf16>, %out: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK: k3.linear
  %0 = k3.linear ins(%x, %weight : tensor<4x0xf32>, tensor<16x0xbf16>) outs(%out : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// Static sizes behind a cast reach the op.
// CHECK-LABEL: func.func @tensor_cast
func.func @tensor_cast(%x: tensor<4x8xf32>, %weight: tensor<8xbf16>, %out: tensor<4x8xf32>) -> tensor<?x8xf32> {
  // CHECK: k3.rms_norm ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8xbf16>) outs(%{{.*}} : tensor<4x8xf32>)
  %0 = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = tensor.cast %out : tensor<4x8xf32> to tensor<?x8xf32>
  %2 = k3.rms_norm ins(%0, %weight : tensor<?x8xf32>, tensor<8xbf16>) outs(%1 : tensor<?x8xf32>) {eps = 1.0e-05 : f64}
      -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @memref_cast
func.func @memref_cast(%x: memref<4x8xf32>, %weight: memref<8xbf16>, %out: memref<4x8xf32>) {
  // CHECK-NOT: memref.cast
  // CHECK: k3.rms_norm ins(%{{.*}}, %{{.*}} : memref<4x8xf32>, memref<8xbf16>) outs(%{{.*}} : memref<4x8xf32>)
  %0 = memref.cast %x : memref<4x8xf32> to memref<?x8xf32, strided<[?, ?], offset: ?>>
  k3.rms_norm ins(%0, %weight : memref<?x8xf32, strided<[?, ?], offset: ?>>, memref<8xbf16>)
      outs(%out : memref<4x8xf32>) {eps = 1.0e-05 : f64}
  return
}

// Ops on tensors have no effects: unused ones go, on memrefs they stay.
// CHECK-LABEL: func.func @unused
func.func @unused(%x: tensor<4x8xf32>, %weight: tensor<8xbf16>, %y: memref<4x8xf32>, %w: memref<8xbf16>) {
  // CHECK-NEXT: k3.rms_norm ins({{.*}} : memref
  // CHECK-NEXT: return
  %0 = k3.rms_norm ins(%x, %weight : tensor<4x8xf32>, tensor<8xbf16>) outs(%x : tensor<4x8xf32>) {eps = 1.0e-05 : f64}
      -> tensor<4x8xf32>
  k3.rms_norm ins(%y, %w : memref<4x8xf32>, memref<8xbf16>) outs(%y : memref<4x8xf32>) {eps = 1.0e-05 : f64}
  return
}

// CHECK-LABEL: func.func @no_logits
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<0xi32>)
func.func @no_logits(%logits: tensor<0x70xf32>, %parameters: tensor<0x8xi32>, %banned: tensor<2x3xi32>,
                     %ids: tensor<0xi32>) -> tensor<0xi32> {
  // CHECK-NEXT: return %[[IDS]]
  %0 = k3.sample ins(%logits, %parameters, %banned : tensor<0x70xf32>, tensor<0x8xi32>, tensor<2x3xi32>)
      outs(%ids : tensor<0xi32>) -> tensor<0xi32>
  return %0 : tensor<0xi32>
}
