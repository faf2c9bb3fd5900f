// Sizes of the results of the LatentMoE ops are those of the destinations: no dim of a result is left.
// RUN: k3-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @route(
// CHECK-SAME: %[[IDS:arg2]]: tensor<?x4xi32>{{.*}}%[[WEIGHTS:arg3]]: tensor<?x4xf32>
func.func @route(%logits: tensor<?x16xf32>, %bias: tensor<16xf32>,
                 %ids: tensor<?x4xi32>,
                 %weights: tensor<?x4xf32>) -> (index, index) {
  %0:2 = k3.latent_moe.route ins(%logits, %bias : tensor<?x16xf32>, tensor<16xf32>)
      outs(%ids, %weights : tensor<?x4xi32>, tensor<?x4xf32>) {renormalize = true, scale = 1.0 : f64}
      -> tensor<?x4xi32>, tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[IDS]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4xi32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[WEIGHTS]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4xf32>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @plan(
// CHECK-SAME: %[[PERM:arg2]]: tensor<?x4xi32>
func.func @plan(%ids: tensor<?x4xi32>, %offsets: tensor<17xi32>,
                %perm: tensor<?x4xi32>) -> index {
  %0:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%offsets, %perm : tensor<17xi32>, tensor<?x4xi32>)
      -> tensor<17xi32>, tensor<?x4xi32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[PERM]], %c0
  %d0 = tensor.dim %0#1, %c0 : tensor<?x4xi32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @grouped_up(
// CHECK-SAME: %[[OUT:arg5]]: tensor<?x4x32xf32>
func.func @grouped_up(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w1: tensor<16x32x64xbf16>,
                      %w3: tensor<16x32x64xbf16>, %out: tensor<?x4x32xf32>) -> index {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w1
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) up_weight(%w3 : tensor<16x32x64xbf16>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<swiglu>} -> tensor<?x4x32xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x4x32xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @grouped_up_mx(
// CHECK-SAME: %[[OUT:arg7]]: tensor<?x4x32xf32>
func.func @grouped_up_mx(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w1: tensor<16x32x32xi8>,
                         %s1: tensor<16x32x2xi8>, %w3: tensor<16x32x32xi8>, %s3: tensor<16x32x2xi8>,
                         %out: tensor<?x4x32xf32>) -> index {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w1
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%s1 : tensor<16x32x2xi8>)
      up_weight(%w3 : tensor<16x32x32xi8>) up_scale(%s3 : tensor<16x32x2xi8>) outs(%out : tensor<?x4x32xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x4x32xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x4x32xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @grouped_down_mx(
// CHECK-SAME: %[[OUT:arg5]]: tensor<?x4x64xf32>
func.func @grouped_down_mx(%x: tensor<?x4x32xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                           %w2: tensor<16x64x16xi8>, %s2: tensor<16x64x1xi8>,
                           %out: tensor<?x4x64xf32>) -> index {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w2
      : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x16xi8>) scale(%s2 : tensor<16x64x1xi8>)
      outs(%out : tensor<?x4x64xf32>) -> tensor<?x4x64xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x4x64xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @combine(
// CHECK-SAME: %[[OUT:arg2]]: tensor<?x64xf32>
func.func @combine(%y: tensor<?x4x64xf32>, %weights: tensor<?x4xf32>,
                   %out: tensor<?x64xf32>) -> index {
  %0 = k3.latent_moe.combine ins(%y, %weights : tensor<?x4x64xf32>, tensor<?x4xf32>) outs(%out : tensor<?x64xf32>)
      -> tensor<?x64xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x64xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}
