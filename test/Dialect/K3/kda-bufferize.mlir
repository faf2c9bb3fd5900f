// The KDA ops update their destinations in place: as they are, and decomposed, whole or as tiles.
// RUN: k3-opt %S/Inputs/kda.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --implicit-check-not=memref.alloc --implicit-check-not=memref.copy
//
// Decomposed, there are temporaries, all of a constant size; what is copied is a part of a buffer, never the whole.
// RUN: k3-opt %S/Inputs/kda.mlir --k3-decompose-structured --canonicalize --cse \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=PARTS --implicit-check-not="memref.alloc(%" \
// RUN:     --implicit-check-not="memref.copy {{.*}} to memref<{{[0-9x]*}}?{{[0-9x?]*(f32|bf16|i32)>}}" --implicit-check-not=k3.
// RUN: k3-opt %S/Inputs/kda.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --canonicalize --cse --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=TILED --implicit-check-not=memref.alloc --implicit-check-not=memref.copy

// CHECK-LABEL: func.func @short_conv(
// CHECK: k3.kda.short_conv ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @short_conv(
// TILED-LABEL: func.func @short_conv(
// TILED: k3.kda.short_conv ins(

// CHECK-LABEL: func.func @gate_bounded(
// CHECK: k3.kda.gate ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @gate_bounded(
// TILED-LABEL: func.func @gate_bounded(
// TILED: k3.kda.gate ins(

// CHECK-LABEL: func.func @gate_softplus(
// CHECK: k3.kda.gate ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @gate_softplus(
// TILED-LABEL: func.func @gate_softplus(
// TILED: k3.kda.gate ins(

// CHECK-LABEL: func.func @scan(
// CHECK: k3.kda.scan ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @scan(
// TILED-LABEL: func.func @scan(
// TILED: k3.kda.scan ins(

// CHECK-LABEL: func.func @scan_per_head(
// CHECK: k3.kda.scan ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @scan_per_head(
// TILED-LABEL: func.func @scan_per_head(
// TILED: k3.kda.scan ins(

// CHECK-LABEL: func.func @scan_linear_attention(
// CHECK: k3.kda.scan ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @scan_linear_attention(
// TILED-LABEL: func.func @scan_linear_attention(
// TILED: k3.kda.scan ins(

// CHECK-LABEL: func.func @recurrent_step(
// CHECK: k3.kda.recurrent_step ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @recurrent_step(
// TILED-LABEL: func.func @recurrent_step(
// TILED: k3.kda.recurrent_step ins(

// CHECK-LABEL: func.func @decode_step(
// CHECK: k3.kda.decode_step ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @decode_step(
// TILED-LABEL: func.func @decode_step(
// TILED: k3.kda.decode_step ins(

// CHECK-LABEL: func.func @chunk_prepare(
// CHECK: k3.kda.chunk_prepare ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @chunk_prepare(
// TILED-LABEL: func.func @chunk_prepare(
// TILED: k3.kda.chunk_prepare ins(

// CHECK-LABEL: func.func @chunk_prepare_pairwise(
// CHECK: k3.kda.chunk_prepare ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @chunk_prepare_pairwise(
// TILED-LABEL: func.func @chunk_prepare_pairwise(
// TILED: k3.kda.chunk_prepare ins(

// CHECK-LABEL: func.func @chunk_scan(
// CHECK: k3.kda.chunk_scan ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @chunk_scan(
// TILED-LABEL: func.func @chunk_scan(
// TILED: k3.kda.chunk_scan ins(

// CHECK-LABEL: func.func @gated_norm(
// CHECK: k3.kda.gated_norm ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @gated_norm(
// TILED-LABEL: func.func @gated_norm(
// TILED: k3.kda.gated_norm ins(
