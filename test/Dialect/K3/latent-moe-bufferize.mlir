// The LatentMoE ops update their destinations in place: as they are, and decomposed, whole or as tiles.
// RUN: k3-opt %S/Inputs/latent-moe.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --implicit-check-not=memref.alloc --implicit-check-not=memref.copy
//
// Decomposed, there are temporaries, all of a constant size; what is copied is a part of a buffer, never the whole.
// RUN: k3-opt %S/Inputs/latent-moe.mlir --k3-decompose-structured --canonicalize --cse \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=PARTS --implicit-check-not="memref.alloc(%" \
// RUN:     --implicit-check-not="memref.copy {{.*}} to memref<{{[0-9x]*}}?{{[0-9x?]*(f32|bf16|i32)>}}" --implicit-check-not=k3.
// RUN: k3-opt %S/Inputs/latent-moe.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --canonicalize --cse --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=TILED --implicit-check-not=memref.alloc --implicit-check-not=memref.copy

// CHECK-LABEL: func.func @route(
// CHECK: k3.latent_moe.route ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @route(
// TILED-LABEL: func.func @route(
// TILED: k3.latent_moe.route ins(

// CHECK-LABEL: func.func @plan(
// CHECK: k3.latent_moe.plan ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @plan(
// TILED-LABEL: func.func @plan(
// TILED: k3.latent_moe.plan ins(

// CHECK-LABEL: func.func @grouped_up(
// CHECK: k3.latent_moe.grouped_contract ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @grouped_up(
// TILED-LABEL: func.func @grouped_up(
// TILED: k3.latent_moe.grouped_contract ins(

// CHECK-LABEL: func.func @grouped_up_mx(
// CHECK: k3.latent_moe.grouped_contract ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @grouped_up_mx(
// TILED-LABEL: func.func @grouped_up_mx(
// TILED: k3.latent_moe.grouped_contract ins(

// CHECK-LABEL: func.func @grouped_down_mx(
// CHECK: k3.latent_moe.grouped_contract ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @grouped_down_mx(
// TILED-LABEL: func.func @grouped_down_mx(
// TILED: k3.latent_moe.grouped_contract ins(

// CHECK-LABEL: func.func @combine(
// CHECK: k3.latent_moe.combine ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @combine(
// TILED-LABEL: func.func @combine(
// TILED: k3.latent_moe.combine ins(

// CHECK-LABEL: func.func @plan_counted(
// CHECK: k3.latent_moe.plan ins(%{{.*}} progress(%arg1 : memref<?x4xi32>) outs(%arg
// PARTS-LABEL: func.func @plan_counted(
// TILED-LABEL: func.func @plan_counted(
// TILED: k3.latent_moe.plan ins(

// CHECK-LABEL: func.func @expert_mlp(
// CHECK: k3.latent_moe.expert_mlp ins(%{{.*}} outs(%arg9, %arg10, %arg11 :
// PARTS-LABEL: func.func @expert_mlp(
// TILED-LABEL: func.func @expert_mlp(
// TILED: k3.latent_moe.expert_mlp ins(
