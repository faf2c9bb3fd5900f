// Text of the LatentMoE ops on tensors, and on memrefs after bufferization.
// RUN: k3-opt %S/Inputs/latent-moe.mlir --verify-roundtrip | FileCheck %s
// RUN: k3-opt %S/Inputs/latent-moe.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --verify-roundtrip \
// RUN:   | FileCheck %s --check-prefix=MEMREF

// CHECK-LABEL: func.func @route(
// CHECK: k3.latent_moe.route {{.*}} {renormalize = true, scale = 1.000000e+00 : f64} -> tensor<?x4xi32>, tensor<?x4xf32>
// MEMREF-LABEL: func.func @route(
// MEMREF-NEXT: k3.latent_moe.route {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @plan(
// CHECK: k3.latent_moe.plan ins(%{{.*}} : tensor<?x4xi32>) outs(%{{.*}}, %{{.*}} : tensor<17xi32>, tensor<?x4xi32>)
// MEMREF-LABEL: func.func @plan(
// MEMREF-NEXT: k3.latent_moe.plan {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @grouped_up(
// CHECK: k3.latent_moe.grouped_contract {{.*}} up_weight(%{{.*}} : tensor<16x32x64xbf16>) outs({{.*}}) {activation = #k3.activation<swiglu>}
// MEMREF-LABEL: func.func @grouped_up(
// MEMREF-NEXT: k3.latent_moe.grouped_contract {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @grouped_up_mx(
// CHECK: k3.latent_moe.grouped_contract {{.*}} scale(%{{.*}} : tensor<16x32x2xi8>) up_weight(%{{.*}} : tensor<16x32x32xi8>) up_scale(%{{.*}} : tensor<16x32x2xi8>) outs(
// MEMREF-LABEL: func.func @grouped_up_mx(
// MEMREF-NEXT: k3.latent_moe.grouped_contract {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @grouped_down_mx(
// CHECK: k3.latent_moe.grouped_contract ins({{.*}} : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x16xi8>) scale(%{{.*}} : tensor<16x64x1xi8>) outs(
// MEMREF-LABEL: func.func @grouped_down_mx(
// MEMREF-NEXT: k3.latent_moe.grouped_contract {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @combine(
// CHECK: k3.latent_moe.combine ins(%{{.*}}, %{{.*}} : tensor<?x4x64xf32>, tensor<?x4xf32>)
// MEMREF-LABEL: func.func @combine(
// MEMREF-NEXT: k3.latent_moe.combine {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @plan_counted(
// CHECK: k3.latent_moe.plan ins(%{{.*}} : tensor<?x4xi32>) progress(%{{.*}} : tensor<?x4xi32>) outs(%{{.*}}, %{{.*}} : tensor<17xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>, tensor<17xi32>, tensor<?x4xi32>
// MEMREF-LABEL: func.func @plan_counted(
// MEMREF-NEXT: k3.latent_moe.plan {{.*}}progress({{.*}} memref<{{[^>]*}}>) outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @expert_mlp(
// CHECK: k3.latent_moe.expert_mlp {{.*}} scale(%{{.*}} : tensor<16x32x2xi8>) up_scale(%{{.*}} : tensor<16x32x2xi8>) down_scale(%{{.*}} : tensor<16x64x1xi8>) outs(
// MEMREF-LABEL: func.func @expert_mlp(
// MEMREF-NEXT: k3.latent_moe.expert_mlp {{.*}}outs({{.*}} memref<{{[^>]*}}>)
