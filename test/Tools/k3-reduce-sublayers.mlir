// Sublayers around the one of interest pass their input through.
// RUN: k3-reduce %s --k3-reduce-ops=test=%S/Inputs/has-lm-head.sh | FileCheck %s

// CHECK: func.func @head(%[[X:[a-z0-9]+]]: tensor<?x8xf32>
func.func @head(%x: tensor<?x8xf32>, %up: tensor<16x8xbf16>, %down: tensor<8x16xbf16>, %norm: tensor<8xbf16>,
                %table: tensor<32x8xbf16>) -> tensor<?x32xf32> {
  // CHECK-NEXT: k3.lm_head %[[X]]
  // CHECK-NEXT: return
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%up : tensor<16x8xbf16>) up_proj(%up : tensor<16x8xbf16>)
      down_proj(%down : tensor<8x16xbf16>) {activation = #k3.activation<swiglu>}
  %1 = k3.mlp %0 : tensor<?x8xf32> gate_proj(%up : tensor<16x8xbf16>) up_proj(%up : tensor<16x8xbf16>)
      down_proj(%down : tensor<8x16xbf16>) {activation = #k3.activation<swiglu>}
  %2 = k3.lm_head %1 : tensor<?x8xf32> norm(%norm : tensor<8xbf16>) weight(%table : tensor<32x8xbf16>)
      {eps = 1.0e-05 : f64}
  return %2 : tensor<?x32xf32>
}
