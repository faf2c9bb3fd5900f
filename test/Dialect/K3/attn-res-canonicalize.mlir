// RUN: k3-opt %s --canonicalize | FileCheck %s

// The weight of a single source is 1: a plain residual (R = 1, one source) needs no mix.
// CHECK-LABEL: func.func @mix_of_one_source
// CHECK-SAME: %[[STREAM:.*]]: tensor<1x?x8xf32>
func.func @mix_of_one_source(%stream: tensor<1x?x8xf32>, %norm_weight: tensor<8xbf16>, %proj_weight: tensor<1x8xbf16>,
                             %out: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK-NOT: k3.attn_res.mix
  // CHECK: %[[X:.*]] = tensor.extract_slice %[[STREAM]][0, 0, 0] [1, %{{.*}}, 8] [1, 1, 1] : tensor<1x?x8xf32> to tensor<?x8xf32>
  // CHECK: return %[[X]]
  %one = arith.constant 1 : index
  %0 = k3.attn_res.mix ins(%stream, %one, %norm_weight, %proj_weight
      : tensor<1x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64}
      -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// The norm of the mix stays.
// CHECK-LABEL: func.func @mix_norm_of_one_source
// CHECK-SAME: %[[STREAM:.*]]: tensor<9x4x8xf32>, %{{.*}}, %{{.*}}, %[[WEIGHT:.*]]: tensor<8xbf16>, %[[OUT:.*]]: tensor<4x8xbf16>
func.func @mix_norm_of_one_source(%stream: tensor<9x4x8xf32>, %norm_weight: tensor<8xbf16>,
                                  %proj_weight: tensor<1x8xbf16>, %out_weight: tensor<8xbf16>,
                                  %out: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  // CHECK: %[[X:.*]] = tensor.extract_slice %[[STREAM]][0, 0, 0] [1, 4, 8] [1, 1, 1] : tensor<9x4x8xf32> to tensor<4x8xf32>
  // CHECK: %[[Y:.*]] = k3.rms_norm ins(%[[X]], %[[WEIGHT]] : {{.*}}) outs(%[[OUT]] : tensor<4x8xbf16>) {eps = 2.000000e-05 : f64}
  // CHECK: return %[[Y]]
  %one = arith.constant 1 : index
  %0 = k3.attn_res.mix ins(%stream, %one, %norm_weight, %proj_weight
      : tensor<9x4x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<4x8xbf16>) {eps = 1.0e-05 : f64, out_eps = 2.0e-05 : f64} -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// One op that rounds stays one op; so does a mix of an unknown number of sources, or of two.
// CHECK-LABEL: func.func @mix_stays
func.func @mix_stays(%stream: tensor<9x4x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                     %proj_weight: tensor<1x8xbf16>, %rounded: tensor<4x8xbf16>, %out: tensor<4x8xf32>)
    -> (tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-COUNT-3: k3.attn_res.mix
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %0 = k3.attn_res.mix ins(%stream, %one, %norm_weight, %proj_weight
      : tensor<9x4x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%rounded : tensor<4x8xbf16>)
      {eps = 1.0e-05 : f64} -> tensor<4x8xbf16>
  %1 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x4x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%out : tensor<4x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<4x8xf32>
  %2 = k3.attn_res.mix ins(%stream, %two, %norm_weight, %proj_weight
      : tensor<9x4x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%out : tensor<4x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<4x8xf32>
  return %0, %1, %2 : tensor<4x8xbf16>, tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @accumulate_no_rows
// CHECK-SAME: %[[STREAM:[a-z0-9]+]]: tensor<9x0x8xf32>
func.func @accumulate_no_rows(%delta: tensor<0x8xf32>, %slot: index, %stream: tensor<9x0x8xf32>) -> tensor<9x0x8xf32> {
  // CHECK: return %[[STREAM]]
  %0 = k3.attn_res.accumulate ins(%delta, %slot : tensor<0x8xf32>, index) outs(%stream : tensor<9x0x8xf32>)
      -> tensor<9x0x8xf32>
  return %0 : tensor<9x0x8xf32>
}
