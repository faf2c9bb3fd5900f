// The KDA ops in upstream ops, whole and as tiles.
// RUN: k3-opt %S/Inputs/kda.mlir --k3-decompose-structured | FileCheck %s --implicit-check-not='k3.{{.}}'
// RUN: k3-opt %S/Inputs/kda.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --k3-decompose-structured | FileCheck %s --check-prefix=TILED --implicit-check-not='k3.{{.}}'

// CHECK-LABEL: func.func @short_conv(
// CHECK: arith.select
// CHECK: math.exp
// TILED-LABEL: func.func @short_conv(

// CHECK-LABEL: func.func @gate_bounded(
// Entries of a_log past the heads are padding.
// CHECK: tensor.extract_slice %{{.*}}[0] [4] [1] : tensor<6xf32> to tensor<4xf32>
// CHECK: arith.constant -5.000000e+00 : f32
// TILED-LABEL: func.func @gate_bounded(

// CHECK-LABEL: func.func @gate_softplus(
// CHECK: math.log1p
// TILED-LABEL: func.func @gate_softplus(

// CHECK-LABEL: func.func @scan(
// Sequences, heads, tokens, rows of the state.
// CHECK-COUNT-4: scf.for
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, 0] [1, 1, 1, 8] [1, 1, 1, 1] : tensor<?x4x16x8xf32> to tensor<8xf32>
// TILED-LABEL: func.func @scan(

// CHECK-LABEL: func.func @scan_per_head(
// CHECK: %[[G:.*]] = tensor.extract %{{.*}} : tensor<?x4xf32>
// TILED-LABEL: func.func @scan_per_head(

// CHECK-LABEL: func.func @scan_linear_attention(
// No length, no decay: the only exponential is the sigmoid of beta.
// CHECK-NOT: math.rsqrt
// CHECK-COUNT-1: math.exp
// CHECK-NOT: math.exp
// TILED-LABEL: func.func @scan_linear_attention(

// CHECK-LABEL: func.func @recurrent_step(
// CHECK-COUNT-3: scf.for
// TILED-LABEL: func.func @recurrent_step(

// Sequences, heads, the rows of the state; in a head three convolutions first.
// CHECK-LABEL: func.func @decode_step(
// CHECK-COUNT-2: scf.for
// CHECK-COUNT-3: math.exp
// CHECK: math.log
// CHECK: math.rsqrt
// TILED-LABEL: func.func @decode_step(

// Exponents relative to the middle row, and products of factors that have them.
// CHECK-LABEL: func.func @chunk_prepare(
// CHECK: arith.divui
// CHECK-COUNT-3: arith.subf
// CHECK-COUNT-2: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// TILED-LABEL: func.func @chunk_prepare(

// Exponents are sums of the gates between two rows, never differences of sums: the only differences are those of the
// triangular systems for w and u.
// CHECK-LABEL: func.func @chunk_prepare_pairwise(
// CHECK-COUNT-2: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK-COUNT-2: arith.subf
// CHECK-NOT: arith.subf
// TILED-LABEL: func.func @chunk_prepare_pairwise(

// CHECK-LABEL: func.func @chunk_scan(
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel"]
// TILED-LABEL: func.func @chunk_scan(

// CHECK-LABEL: func.func @gated_norm(
// CHECK: math.rsqrt
// CHECK: math.exp
// TILED-LABEL: func.func @gated_norm(
