// RUN: k3-opt %s --k3-fuse-experts --remarks-filter=k3-fuse-experts --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// REMARK: [Passed] ExpertMlp | Category:k3-fuse-experts | Function=decode
// REMARK-NOT: ExpertMlp

// Both products are one op, and the plan makes zeros for its counters. What the first one rounds, the op does.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x64xf32>, %[[IDS:[a-z0-9]+]]: tensor<?x4xi32>
// CHECK: tensor.empty(%{{.*}}) : tensor<?x4xi32>
// CHECK: %[[ZEROS:.*]] = tensor.empty(%{{.*}}) : tensor<?x4xi32>
// CHECK: %[[PLAN:.*]]:3 = k3.latent_moe.plan ins(%[[IDS]] : tensor<?x4xi32>) progress(%[[ZEROS]] : tensor<?x4xi32>)
// CHECK-NOT: grouped_contract
// CHECK: %[[MLP:.*]]:3 = k3.latent_moe.expert_mlp ins(%[[X]], %[[PLAN]]#1, %[[PLAN]]#2, %arg2, %arg3, %arg4 :
// CHECK-SAME: outs(%{{.*}}, %{{.*}}, %[[PLAN]]#0 :
// CHECK-SAME: {activation = #k3.activation<swiglu>, bf16_x}
// CHECK: return %[[MLP]]#1
func.func @decode(%x: tensor<?x64xf32>, %ids: tensor<?x4xi32>, %w1: tensor<16x32x64xbf16>, %w3: tensor<16x32x64xbf16>,
    %w2: tensor<16x64x32xbf16>, %n: index) -> tensor<?x4x64xf32> attributes {k3.phase = #k3.phase<decode>} {
  %e0 = tensor.empty() : tensor<17xi32>
  %e1 = tensor.empty(%n) : tensor<?x4xi32>
  %p:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%e0, %e1 : tensor<17xi32>, tensor<?x4xi32>) -> tensor<17xi32>, tensor<?x4xi32>
  %e2 = tensor.empty(%n) : tensor<?x4x32xf32>
  %g = k3.latent_moe.grouped_contract ins(%x, %p#0, %p#1, %w1 : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) up_weight(%w3 : tensor<16x32x64xbf16>) outs(%e2 : tensor<?x4x32xf32>) {activation = #k3.activation<swiglu>, bf16_x} -> tensor<?x4x32xf32>
  %e3 = tensor.empty(%n) : tensor<?x4x64xf32>
  %y = k3.latent_moe.grouped_contract ins(%g, %p#0, %p#1, %w2 : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x32xbf16>) outs(%e3 : tensor<?x4x64xf32>) {bf16_x} -> tensor<?x4x64xf32>
  return %y : tensor<?x4x64xf32>
}

// Rows of the first product that something else reads, too, stay as they are.
// CHECK-LABEL: func.func @used_twice(
// CHECK-COUNT-2: k3.latent_moe.grouped_contract
// CHECK-NOT: expert_mlp
func.func @used_twice(%x: tensor<?x64xf32>, %ids: tensor<?x4xi32>, %w1: tensor<16x32x64xbf16>, %w3: tensor<16x32x64xbf16>,
    %w2: tensor<16x64x32xbf16>, %n: index) -> (tensor<?x4x32xf32>, tensor<?x4x64xf32>) attributes {k3.phase = #k3.phase<decode>} {
  %e0 = tensor.empty() : tensor<17xi32>
  %e1 = tensor.empty(%n) : tensor<?x4xi32>
  %p:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%e0, %e1 : tensor<17xi32>, tensor<?x4xi32>) -> tensor<17xi32>, tensor<?x4xi32>
  %e2 = tensor.empty(%n) : tensor<?x4x32xf32>
  %g = k3.latent_moe.grouped_contract ins(%x, %p#0, %p#1, %w1 : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) up_weight(%w3 : tensor<16x32x64xbf16>) outs(%e2 : tensor<?x4x32xf32>) {activation = #k3.activation<swiglu>} -> tensor<?x4x32xf32>
  %e3 = tensor.empty(%n) : tensor<?x4x64xf32>
  %y = k3.latent_moe.grouped_contract ins(%g, %p#0, %p#1, %w2 : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x32xbf16>) outs(%e3 : tensor<?x4x64xf32>) -> tensor<?x4x64xf32>
  return %g, %y : tensor<?x4x32xf32>, tensor<?x4x64xf32>
}

// Only one of the two rounds its input; and prefill has many rows for each expert.
// CHECK-LABEL: func.func @rounded_once(
// CHECK-NOT: expert_mlp
func.func @rounded_once(%x: tensor<?x64xf32>, %ids: tensor<?x4xi32>, %w1: tensor<16x32x64xbf16>, %w3: tensor<16x32x64xbf16>,
    %w2: tensor<16x64x32xbf16>, %n: index) -> tensor<?x4x64xf32> attributes {k3.phase = #k3.phase<decode>} {
  %e0 = tensor.empty() : tensor<17xi32>
  %e1 = tensor.empty(%n) : tensor<?x4xi32>
  %p:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%e0, %e1 : tensor<17xi32>, tensor<?x4xi32>) -> tensor<17xi32>, tensor<?x4xi32>
  %e2 = tensor.empty(%n) : tensor<?x4x32xf32>
  %g = k3.latent_moe.grouped_contract ins(%x, %p#0, %p#1, %w1 : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) up_weight(%w3 : tensor<16x32x64xbf16>) outs(%e2 : tensor<?x4x32xf32>) {activation = #k3.activation<swiglu>} -> tensor<?x4x32xf32>
  %e3 = tensor.empty(%n) : tensor<?x4x64xf32>
  %y = k3.latent_moe.grouped_contract ins(%g, %p#0, %p#1, %w2 : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x32xbf16>) outs(%e3 : tensor<?x4x64xf32>) {bf16_x} -> tensor<?x4x64xf32>
  return %y : tensor<?x4x64xf32>
}

// CHECK-LABEL: func.func @prefill(
// CHECK-NOT: expert_mlp
func.func @prefill(%x: tensor<?x64xf32>, %ids: tensor<?x4xi32>, %w1: tensor<16x32x64xbf16>, %w3: tensor<16x32x64xbf16>,
    %w2: tensor<16x64x32xbf16>, %n: index) -> tensor<?x4x64xf32> attributes {k3.phase = #k3.phase<prefill>} {
  %e0 = tensor.empty() : tensor<17xi32>
  %e1 = tensor.empty(%n) : tensor<?x4xi32>
  %p:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%e0, %e1 : tensor<17xi32>, tensor<?x4xi32>) -> tensor<17xi32>, tensor<?x4xi32>
  %e2 = tensor.empty(%n) : tensor<?x4x32xf32>
  %g = k3.latent_moe.grouped_contract ins(%x, %p#0, %p#1, %w1 : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) up_weight(%w3 : tensor<16x32x64xbf16>) outs(%e2 : tensor<?x4x32xf32>) {activation = #k3.activation<swiglu>} -> tensor<?x4x32xf32>
  %e3 = tensor.empty(%n) : tensor<?x4x64xf32>
  %y = k3.latent_moe.grouped_contract ins(%g, %p#0, %p#1, %w2 : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x32xbf16>) outs(%e3 : tensor<?x4x64xf32>) -> tensor<?x4x64xf32>
  return %y : tensor<?x4x64xf32>
}
