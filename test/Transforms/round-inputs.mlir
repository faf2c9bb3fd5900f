// RUN: k3-opt %s --k3-round-inputs | FileCheck %s
// RUN: k3-opt %s --k3-round-inputs=decode | FileCheck %s --check-prefix=ALL

// ALL-LABEL: func.func @decode_layer
// ALL: k3.linear {{.*}}{bf16_x}

// Products with bf16 and MXFP4 weights, but not the router's, nor one with f32 weights.
// CHECK-LABEL: func.func @prefill_layer
func.func @prefill_layer(%x: tensor<?x8xf32>, %w: tensor<16x8xbf16>, %f: tensor<16x8xf32>, %r: tensor<4x8xbf16>, %bias: tensor<4xf32>,
                         %a: tensor<?x16xf32>, %b: tensor<?x16xf32>, %l: tensor<?x4xf32>, %i: tensor<?x2xi32>, %p: tensor<?x2xf32>)
    -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>) attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: k3.linear {{.*}}tensor<16x8xbf16>) {{.*}}{bf16_x}
  %0 = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%a : tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: k3.linear {{.*}}tensor<16x8xf32>) outs({{[^{]*}}-> tensor<?x16xf32>
  %1 = k3.linear ins(%x, %f : tensor<?x8xf32>, tensor<16x8xf32>) outs(%b : tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: k3.linear {{.*}}tensor<4x8xbf16>) outs({{[^{]*}}-> tensor<?x4xf32>
  %2 = k3.linear ins(%x, %r : tensor<?x8xf32>, tensor<4x8xbf16>) outs(%l : tensor<?x4xf32>) -> tensor<?x4xf32>
  %3:2 = k3.latent_moe.route ins(%2, %bias : tensor<?x4xf32>, tensor<4xf32>) outs(%i, %p : tensor<?x2xi32>, tensor<?x2xf32>)
      {renormalize = true, scale = 1.0 : f64} -> tensor<?x2xi32>, tensor<?x2xf32>
  return %0, %1, %3#0 : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>
}

// CHECK-LABEL: func.func @prefill_packed
func.func @prefill_packed(%x: tensor<?x32xf32>, %w: tensor<16x16xi8>, %s: tensor<16x1xi8>, %a: tensor<?x16xf32>, %offsets: tensor<5xi32>,
                          %perm: tensor<?x2xi32>, %e: tensor<4x16x16xi8>, %t: tensor<4x16x1xi8>, %b: tensor<?x2x16xf32>)
    -> (tensor<?x16xf32>, tensor<?x2x16xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: k3.mx.contract {{.*}}{bf16_x}
  %0 = k3.mx.contract ins(%x, %w, %s : tensor<?x32xf32>, tensor<16x16xi8>, tensor<16x1xi8>) outs(%a : tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: k3.latent_moe.grouped_contract {{.*}}{bf16_x}
  %1 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %e : tensor<?x32xf32>, tensor<5xi32>, tensor<?x2xi32>, tensor<4x16x16xi8>)
      scale(%t : tensor<4x16x1xi8>) outs(%b : tensor<?x2x16xf32>) -> tensor<?x2x16xf32>
  return %0, %1 : tensor<?x16xf32>, tensor<?x2x16xf32>
}

// Attention to a bf16 cache, not to one of f32.
// CHECK-LABEL: func.func @prefill_attend
func.func @prefill_attend(%q: tensor<?x2x12xf32>, %c: tensor<?x16x12xbf16>, %f: tensor<?x16x12xf32>, %cu: tensor<?xi32>, %n: tensor<?xi32>,
                          %t: tensor<?x?xi32>, %a: tensor<?x2x8xf32>, %b: tensor<?x2x8xf32>) -> (tensor<?x2x8xf32>, tensor<?x2x8xf32>)
    attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: k3.mla.attend {{.*}}{bf16_x, scale = 3.000000e-01 : f64}
  %0 = k3.mla.attend ins(%q, %c, %cu, %n, %t : tensor<?x2x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%a : tensor<?x2x8xf32>) {scale = 0.3 : f64} -> tensor<?x2x8xf32>
  // CHECK: k3.mla.attend {{.*}}{scale = 3.000000e-01 : f64}
  %1 = k3.mla.attend ins(%q, %f, %cu, %n, %t : tensor<?x2x12xf32>, tensor<?x16x12xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%b : tensor<?x2x8xf32>) {scale = 0.3 : f64} -> tensor<?x2x8xf32>
  return %0, %1 : tensor<?x2x8xf32>, tensor<?x2x8xf32>
}

// Decoding stays as it is.
// CHECK-LABEL: func.func @decode_layer
// CHECK-NOT: bf16_x
func.func @decode_layer(%x: tensor<?x8xf32>, %w: tensor<16x8xbf16>, %a: tensor<?x16xf32>) -> tensor<?x16xf32>
    attributes {k3.phase = #k3.phase<decode>} {
  %0 = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%a : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}
