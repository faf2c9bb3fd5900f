// RUN: k3-opt %s --k3-fix-order --k3-lower-kda-decode | FileCheck %s

// Everything that adds up more than its own row, and the scan, which stays for any number of rows.
// CHECK-LABEL: func.func @decode_layer
func.func @decode_layer(%x: tensor<?x8xf32>, %w: tensor<16x8xbf16>, %a: tensor<?x16xf32>,
    %q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
    %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x16xf32>, tensor<?x2x6xf32>, tensor<?x2x6x4xf32>)
    attributes {k3.phase = #k3.phase<decode>} {
  // CHECK: k3.linear {{.*}}{fixed_order}
  %0 = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%a : tensor<?x16xf32>) -> tensor<?x16xf32>
  // CHECK: k3.kda.scan {{.*}}fixed_order
  // CHECK-NOT: k3.kda.recurrent_step
  %1:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0, %1#0, %1#1 : tensor<?x16xf32>, tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// CHECK-LABEL: func.func @prefill_layer
// CHECK-NOT: fixed_order
func.func @prefill_layer(%x: tensor<?x8xf32>, %w: tensor<16x8xbf16>, %a: tensor<?x16xf32>) -> tensor<?x16xf32>
    attributes {k3.phase = #k3.phase<prefill>} {
  %0 = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%a : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}
