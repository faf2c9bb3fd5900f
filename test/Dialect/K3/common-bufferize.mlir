// The ops every layer uses update their destinations in place: as they are, and decomposed, whole or as tiles.
// RUN: k3-opt %S/Inputs/common.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   | FileCheck %s --implicit-check-not=memref.alloc --implicit-check-not=memref.copy
//
// Decomposed, there are temporaries, all of a constant size; what is copied is a part of a buffer, never the whole.
// RUN: k3-opt %S/Inputs/common.mlir --k3-decompose-structured --canonicalize --cse \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=PARTS --implicit-check-not="memref.alloc(%" \
// RUN:     --implicit-check-not="memref.copy {{.*}} to memref<{{[0-9x]*}}?{{[0-9x?]*(f32|bf16|i32)>}}" --implicit-check-not=k3.
// RUN: k3-opt %S/Inputs/common.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --canonicalize --cse --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --canonicalize --cse --canonicalize \
// RUN:   | FileCheck %s --check-prefix=TILED --implicit-check-not=memref.alloc --implicit-check-not=memref.copy

// CHECK-LABEL: func.func @gather_rows(
// CHECK: k3.gather_rows ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @gather_rows(
// TILED-LABEL: func.func @gather_rows(
// TILED: k3.gather_rows ins(

// CHECK-LABEL: func.func @linear(
// CHECK: k3.linear ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @linear(
// TILED-LABEL: func.func @linear(
// TILED: k3.linear ins(

// CHECK-LABEL: func.func @linear_accumulate(
// CHECK: k3.linear ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @linear_accumulate(
// TILED-LABEL: func.func @linear_accumulate(
// TILED: k3.linear ins(

// CHECK-LABEL: func.func @mx_contract(
// CHECK: k3.mx.contract ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @mx_contract(
// TILED-LABEL: func.func @mx_contract(
// TILED: k3.mx.contract ins(

// CHECK-LABEL: func.func @rms_norm(
// CHECK: k3.rms_norm ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @rms_norm(
// TILED-LABEL: func.func @rms_norm(
// TILED: k3.rms_norm ins(

// CHECK-LABEL: func.func @glu(
// CHECK: k3.glu ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @glu(
// TILED-LABEL: func.func @glu(
// TILED: k3.glu ins(

// CHECK-LABEL: func.func @glu_swiglu(
// CHECK: k3.glu ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @glu_swiglu(
// TILED-LABEL: func.func @glu_swiglu(
// TILED: k3.glu ins(

// CHECK-LABEL: func.func @sigmoid_gate(
// CHECK: k3.sigmoid_gate ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @sigmoid_gate(
// TILED-LABEL: func.func @sigmoid_gate(
// TILED: k3.sigmoid_gate ins(

// CHECK-LABEL: func.func @sample(
// CHECK: k3.sample ins(%{{.*}} outs(%arg
// PARTS-LABEL: func.func @sample(
// TILED-LABEL: func.func @sample(
// TILED: k3.sample ins(
