// RUN: k3-opt %s --k3-decompose-structured | FileCheck %s
// RUN: k3-opt %s --k3-decompose-structured=ops=k3.glu | FileCheck %s --check-prefix=SOME
// RUN: not k3-opt %s --k3-decompose-structured=ops=k3.silu 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: expected names of structured ops in 'ops', got 'k3.silu'

// All ops, or those asked for. What each becomes is tested in test/Dialect/K3/*-decompose.mlir.
// CHECK-LABEL: func.func @mlp
// SOME-LABEL: func.func @mlp
func.func @mlp(%x: tensor<4x8xf32>, %w: tensor<8x8xbf16>, %up: tensor<4x8xf32>, %out: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: k3.linear
  // SOME: k3.linear
  %0 = k3.linear ins(%x, %w : tensor<4x8xf32>, tensor<8x8xbf16>) outs(%out : tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NOT: k3.glu
  // SOME-NOT: k3.glu
  %1 = k3.glu ins(%0, %up : tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>)
      {activation = #k3.activation<swiglu>} -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// An op on memrefs is not a value: it stays.
// CHECK-LABEL: func.func @memref
func.func @memref(%x: memref<4x8xf32>, %w: memref<8xf32>) {
  // CHECK: k3.rms_norm
  k3.rms_norm ins(%x, %w : memref<4x8xf32>, memref<8xf32>) outs(%x : memref<4x8xf32>) {eps = 1.0e-05 : f64}
  return
}
