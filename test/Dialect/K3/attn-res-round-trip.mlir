// Text of the AttnRes ops on tensors, and on memrefs after bufferization.
// RUN: k3-opt %S/Inputs/attn-res.mlir --verify-roundtrip | FileCheck %s
// RUN: k3-opt %S/Inputs/attn-res.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --verify-roundtrip \
// RUN:   | FileCheck %s --check-prefix=MEMREF

// CHECK-LABEL: func.func @mix(
// CHECK: k3.attn_res.mix ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%{{.*}} : tensor<?x8xf32>) {eps = 1.000000e-05 : f64}
// MEMREF-LABEL: func.func @mix(
// MEMREF-NEXT: k3.attn_res.mix {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @mix_norm(
// CHECK: k3.attn_res.mix {{.*}} out_weight(%{{.*}} : tensor<8xbf16>) outs({{.*}}) {eps = 1.000000e-05 : f64, out_eps = 1.000000e-05 : f64}
// MEMREF-LABEL: func.func @mix_norm(
// MEMREF-NEXT: k3.attn_res.mix {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @accumulate(
// CHECK: k3.attn_res.accumulate ins(%{{.*}}, %{{.*}} : tensor<?x8xf32>, index) outs(%{{.*}} : tensor<9x?x8xf32>) -> tensor<9x?x8xf32>
// MEMREF-LABEL: func.func @accumulate(
// MEMREF-NEXT: k3.attn_res.accumulate {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @accumulate_init(
// CHECK: k3.attn_res.accumulate {{.*}} {init} -> tensor<9x?x8xf32>
// MEMREF-LABEL: func.func @accumulate_init(
// MEMREF-NEXT: k3.attn_res.accumulate {{.*}}outs({{.*}} memref<{{[^>]*}}>)
