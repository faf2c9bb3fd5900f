// The MLA ops update their destinations in place: as they are, and decomposed, whole or as tiles.
// RUN: k3-opt %S/Inputs/mla.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --implicit-check-not=memref.alloc --implicit-check-not=memref.copy
//
// Decomposed, there are temporaries, all of a constant size; what is copied is a part of a buffer, never the whole.
// RUN: k3-opt %S/Inputs/mla.mlir --k3-decompose-structured --canonicalize --cse \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=PARTS --implicit-check-not="memref.alloc(%" \
// RUN:     --implicit-check-not="memref.copy {{.*}} to memref<{{[0-9x]*}}?{{[0-9x?]*(f32|bf16|i32)>}}" --implicit-check-not=k3.
// RUN: k3-opt %S/Inputs/mla.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --canonicalize --cse --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=TILED --implicit-check-not=memref.alloc --implicit-check-not=memref.copy

// CHECK-LABEL: func.func @append(
// CHECK: k3.mla.append ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @append(
// TILED-LABEL: func.func @append(
// TILED: k3.mla.append ins(

// CHECK-LABEL: func.func @absorb(
// CHECK: k3.mla.absorb ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @absorb(
// TILED-LABEL: func.func @absorb(
// TILED: k3.mla.absorb ins(

// CHECK-LABEL: func.func @attend(
// CHECK: k3.mla.attend ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @attend(
// TILED-LABEL: func.func @attend(
// TILED: k3.mla.attend ins(

// CHECK-LABEL: func.func @attend_partial(
// CHECK: k3.mla.attend_partial ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @attend_partial(
// TILED-LABEL: func.func @attend_partial(
// TILED: k3.mla.attend_partial ins(

// CHECK-LABEL: func.func @attend_merge(
// CHECK: k3.mla.attend_merge ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @attend_merge(
// TILED-LABEL: func.func @attend_merge(
// TILED: k3.mla.attend_merge ins(

// CHECK-LABEL: func.func @expand(
// CHECK: k3.mla.expand ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @expand(
// TILED-LABEL: func.func @expand(
// TILED: k3.mla.expand ins(
