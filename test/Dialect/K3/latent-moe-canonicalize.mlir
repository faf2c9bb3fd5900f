// RUN: k3-opt %s --canonicalize | FileCheck %s

// Without tokens there is no slot to sort, but the offsets are still to be written.
// CHECK-LABEL: func.func @plan_no_tokens
func.func @plan_no_tokens(%ids: tensor<0x4xi32>, %offsets: tensor<17xi32>, %perm: tensor<0x4xi32>)
    -> (tensor<17xi32>, tensor<0x4xi32>) {
  // CHECK: k3.latent_moe.plan
  %0:2 = k3.latent_moe.plan ins(%ids : tensor<0x4xi32>) outs(%offsets, %perm : tensor<17xi32>, tensor<0x4xi32>)
      -> tensor<17xi32>, tensor<0x4xi32>
  return %0#0, %0#1 : tensor<17xi32>, tensor<0x4xi32>
}

// CHECK-LABEL: func.func @route_no_tokens
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<0x4xi32>, %[[WEIGHTS:[a-z0-9]+]]: tensor<0x4xf32>
func.func @route_no_tokens(%logits: tensor<0x16xf32>, %bias: tensor<16xf32>, %ids: tensor<0x4xi32>,
                           %weights: tensor<0x4xf32>) -> (tensor<0x4xi32>, tensor<0x4xf32>) {
  // CHECK-NEXT: return %[[IDS]], %[[WEIGHTS]]
  %0:2 = k3.latent_moe.route ins(%logits, %bias : tensor<0x16xf32>, tensor<16xf32>)
      outs(%ids, %weights : tensor<0x4xi32>, tensor<0x4xf32>) {renormalize = true, scale = 1.0 : f64}
      -> tensor<0x4xi32>, tensor<0x4xf32>
  return %0#0, %0#1 : tensor<0x4xi32>, tensor<0x4xf32>
}
