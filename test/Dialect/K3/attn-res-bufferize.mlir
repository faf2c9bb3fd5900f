// The AttnRes ops update their destinations in place: as they are, and decomposed, whole or as tiles.
// RUN: k3-opt %S/Inputs/attn-res.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --implicit-check-not=memref.alloc --implicit-check-not=memref.copy
//
// Decomposed, there are temporaries, all of a constant size; what is copied is a part of a buffer, never the whole.
// RUN: k3-opt %S/Inputs/attn-res.mlir --k3-decompose-structured --canonicalize --cse \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=PARTS --implicit-check-not="memref.alloc(%" \
// RUN:     --implicit-check-not="memref.copy {{.*}} to memref<{{[0-9x]*}}?{{[0-9x?]*(f32|bf16|i32)>}}" --implicit-check-not=k3.
// RUN: k3-opt %S/Inputs/attn-res.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --canonicalize --cse --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=TILED --implicit-check-not=memref.alloc --implicit-check-not=memref.copy

// CHECK-LABEL: func.func @mix(
// CHECK: k3.attn_res.mix ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @mix(
// TILED-LABEL: func.func @mix(
// TILED: k3.attn_res.mix ins(

// CHECK-LABEL: func.func @mix_norm(
// CHECK: k3.attn_res.mix ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @mix_norm(
// TILED-LABEL: func.func @mix_norm(
// TILED: k3.attn_res.mix ins(

// CHECK-LABEL: func.func @accumulate(
// CHECK: k3.attn_res.accumulate ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @accumulate(
// TILED-LABEL: func.func @accumulate(
// TILED: k3.attn_res.accumulate ins(

// CHECK-LABEL: func.func @accumulate_init(
// CHECK: k3.attn_res.accumulate ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @accumulate_init(
// TILED-LABEL: func.func @accumulate_init(
// TILED: k3.attn_res.accumulate ins(
