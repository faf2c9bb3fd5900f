// The AttnRes ops in upstream ops, whole and as tiles.
// RUN: k3-opt %S/Inputs/attn-res.mlir --k3-decompose-structured | FileCheck %s --implicit-check-not='k3.{{.}}'
// RUN: k3-opt %S/Inputs/attn-res.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --k3-decompose-structured | FileCheck %s --check-prefix=TILED --implicit-check-not='k3.{{.}}'

// CHECK-LABEL: func.func @mix(
// CHECK: tensor.empty() : tensor<9xf32>
// CHECK: arith.maximumf
// CHECK: math.exp
// TILED-LABEL: func.func @mix(

// CHECK-LABEL: func.func @mix_norm(
// Mixed and normed in f32, rounded once.
// CHECK-COUNT-2: math.exp
// CHECK: math.rsqrt
// CHECK: arith.truncf
// TILED-LABEL: func.func @mix_norm(

// CHECK-LABEL: func.func @accumulate(
// CHECK: tensor.extract_slice %[[STREAM:.*]][%[[SLOT:.*]], 0, 0]
// CHECK: arith.addf
// CHECK: tensor.insert_slice %{{.*}} into %[[STREAM]][%[[SLOT]], 0, 0]
// TILED-LABEL: func.func @accumulate(

// CHECK-LABEL: func.func @accumulate_init(
// CHECK-NOT: arith.addf
// CHECK: tensor.insert_slice
// TILED-LABEL: func.func @accumulate_init(
