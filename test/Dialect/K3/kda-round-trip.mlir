// Text of the KDA ops on tensors, and on memrefs after bufferization.
// RUN: k3-opt %S/Inputs/kda.mlir --verify-roundtrip | FileCheck %s
// RUN: k3-opt %S/Inputs/kda.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --verify-roundtrip \
// RUN:   | FileCheck %s --check-prefix=MEMREF

// CHECK-LABEL: func.func @short_conv(
// CHECK: k3.kda.short_conv {{.*}} outs(%{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x3x8xbf16>) {silu = true}
// MEMREF-LABEL: func.func @short_conv(
// MEMREF-NEXT: k3.kda.short_conv {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @gate_bounded(
// CHECK: k3.kda.gate {{.*}} a_log(%{{.*}} : tensor<6xf32>) outs({{.*}}) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.000000e+00 : f64}
// MEMREF-LABEL: func.func @gate_bounded(
// MEMREF-NEXT: k3.kda.gate {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @gate_softplus(
// CHECK: k3.kda.gate {{.*}} {kind = #k3.gate_kind<softplus>}
// MEMREF-LABEL: func.func @gate_softplus(
// MEMREF-NEXT: k3.kda.gate {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @scan(
// CHECK: k3.kda.scan {{.*}} g(%{{.*}} : tensor<?x4x8xf32>) outs({{.*}}) {delta = true, gate_bound = -5.000000e+00 : f64, l2norm = true, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @scan(
// MEMREF-NEXT: k3.kda.scan {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @scan_per_head(
// CHECK: k3.kda.scan {{.*}} g(%{{.*}} : tensor<?x4xf32>) outs({{.*}}) {delta = true, l2norm = false, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @scan_per_head(
// MEMREF-NEXT: k3.kda.scan {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @scan_linear_attention(
// CHECK: k3.kda.scan ins({{.*}} tensor<?xi32>) outs({{.*}}) {delta = false, l2norm = false, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @scan_linear_attention(
// MEMREF-NEXT: k3.kda.scan {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @recurrent_step(
// CHECK: k3.kda.recurrent_step {{.*}} {delta = true, l2norm = true, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @recurrent_step(
// MEMREF-NEXT: k3.kda.recurrent_step {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @decode_step(
// CHECK: k3.kda.decode_step {{.*}} a_log(%{{.*}} : tensor<4xf32>) outs({{.*}}) {delta = true, eps = {{.*}} : f64, kind = #k3.gate_kind<softplus>, l2norm = true, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @decode_step(
// MEMREF-NEXT: k3.kda.decode_step {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @chunk_prepare(
// CHECK: k3.kda.chunk_prepare {{.*}} {anchor = #k3.anchor<mid_row>, l2norm = true, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @chunk_prepare(
// MEMREF-NEXT: k3.kda.chunk_prepare {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @chunk_prepare_pairwise(
// CHECK: k3.kda.chunk_prepare {{.*}} {anchor = #k3.anchor<pairwise>, l2norm = true, scale = 2.500000e-01 : f64}
// MEMREF-LABEL: func.func @chunk_prepare_pairwise(
// MEMREF-NEXT: k3.kda.chunk_prepare {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @chunk_scan(
// CHECK: k3.kda.chunk_scan ins(
// MEMREF-LABEL: func.func @chunk_scan(
// MEMREF-NEXT: k3.kda.chunk_scan {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @gated_norm(
// CHECK: k3.kda.gated_norm {{.*}} {eps = 1.000000e-05 : f64}
// MEMREF-LABEL: func.func @gated_norm(
// MEMREF-NEXT: k3.kda.gated_norm {{.*}}outs({{.*}} memref<{{[^>]*}}>)
