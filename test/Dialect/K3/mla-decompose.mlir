// The MLA ops in upstream ops, whole and as tiles.
// RUN: k3-opt %S/Inputs/mla.mlir --k3-decompose-structured | FileCheck %s --implicit-check-not='k3.{{.}}'
// RUN: k3-opt %S/Inputs/mla.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --k3-decompose-structured | FileCheck %s --check-prefix=TILED --implicit-check-not='k3.{{.}}'

// CHECK-LABEL: func.func @append(
// CHECK: math.rsqrt
// CHECK: tensor.insert_slice
// TILED-LABEL: func.func @append(

// CHECK-LABEL: func.func @absorb(
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction", "parallel"]
// TILED-LABEL: func.func @absorb(

// CHECK-LABEL: func.func @attend(
// Sequences, rows, pages.
// CHECK-COUNT-3: scf.for
// CHECK: tensor.empty() : tensor<4x16xf32>
// TILED-LABEL: func.func @attend(

// CHECK-LABEL: func.func @attend_partial(
// All tiles; runs, sequences, a whole sequence or not, pages.
// CHECK-COUNT-5: scf.for
// CHECK: tensor.empty() : tensor<4x16xf32>
// TILED-LABEL: func.func @attend_partial(

// CHECK-LABEL: func.func @attend_merge(
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
// TILED-LABEL: func.func @attend_merge(

// CHECK-LABEL: func.func @expand(
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel", "reduction"]
// TILED-LABEL: func.func @expand(
