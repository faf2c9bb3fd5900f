// RUN: k3-opt %s --canonicalize | FileCheck %s

// Without heads there is nothing to attend to.
// CHECK-LABEL: func.func @merge_no_heads
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<?x0x8xf32>
func.func @merge_no_heads(%parts: tensor<3x2x0x8xf32>, %states: tensor<3x2x0x2xf32>, %lengths: tensor<?xi32>,
                          %out: tensor<?x0x8xf32>) -> tensor<?x0x8xf32> {
  // CHECK-NEXT: return %[[OUT]]
  %0 = k3.mla.attend_merge ins(%parts, %states, %lengths : tensor<3x2x0x8xf32>, tensor<3x2x0x2xf32>, tensor<?xi32>)
      outs(%out : tensor<?x0x8xf32>) {tile = 5 : i64} -> tensor<?x0x8xf32>
  return %0 : tensor<?x0x8xf32>
}

// Without tokens the cache stays as it is.
// CHECK-LABEL: func.func @append_no_tokens
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: tensor<32x16x12xbf16>
func.func @append_no_tokens(%kv: tensor<0x12xf32>, %norm_weight: tensor<8xbf16>, %cu: tensor<3xi32>,
                            %lengths: tensor<2xi32>, %page_table: tensor<2x8xi32>, %cache: tensor<32x16x12xbf16>)
    -> tensor<32x16x12xbf16> {
  // CHECK-NEXT: return %[[CACHE]]
  %0 = k3.mla.append ins(%kv, %norm_weight, %cu, %lengths, %page_table
      : tensor<0x12xf32>, tensor<8xbf16>, tensor<3xi32>, tensor<2xi32>, tensor<2x8xi32>)
      outs(%cache : tensor<32x16x12xbf16>) {eps = 1.0e-06 : f64} -> tensor<32x16x12xbf16>
  return %0 : tensor<32x16x12xbf16>
}
