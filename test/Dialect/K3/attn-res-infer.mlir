// Sizes of the results of the AttnRes ops are those of the destinations: no dim of a result is left.
// RUN: k3-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @mix(
// CHECK-SAME: %[[OUT:arg4]]: tensor<?x8xf32>
func.func @mix(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>, %proj_weight: tensor<1x8xbf16>,
               %out: tensor<?x8xf32>) -> index {
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64}
      -> tensor<?x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x8xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @mix_norm(
// CHECK-SAME: %[[OUT:arg5]]: tensor<?x8xbf16>
func.func @mix_norm(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                    %proj_weight: tensor<1x8xbf16>, %out_weight: tensor<8xbf16>,
                    %out: tensor<?x8xbf16>) -> index {
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<?x8xbf16>) {eps = 1.0e-05 : f64, out_eps = 1.0e-05 : f64} -> tensor<?x8xbf16>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x8xbf16>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: %[[STREAM:arg2]]: tensor<9x?x8xf32>
func.func @accumulate(%delta: tensor<?x8xf32>, %slot: index,
                      %stream: tensor<9x?x8xf32>) -> index {
  %0 = k3.attn_res.accumulate ins(%delta, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>)
      -> tensor<9x?x8xf32>
  %c1 = arith.constant 1 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[STREAM]], %c1
  %d0 = tensor.dim %0, %c1 : tensor<9x?x8xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @accumulate_init(
// CHECK-SAME: %[[STREAM:arg2]]: tensor<9x?x8xf32>
func.func @accumulate_init(%delta: tensor<?x8xf32>, %slot: index,
                           %stream: tensor<9x?x8xf32>) -> index {
  %0 = k3.attn_res.accumulate ins(%delta, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>) {init}
      -> tensor<9x?x8xf32>
  %c1 = arith.constant 1 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[STREAM]], %c1
  %d0 = tensor.dim %0, %c1 : tensor<9x?x8xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}
