// The ops every layer uses in upstream ops, whole and as tiles.
// RUN: k3-opt %S/Inputs/common.mlir --k3-decompose-structured | FileCheck %s --implicit-check-not='k3.{{.}}'
// RUN: k3-opt %S/Inputs/common.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --k3-decompose-structured | FileCheck %s --check-prefix=TILED --implicit-check-not='k3.{{.}}'

// CHECK-LABEL: func.func @gather_rows(
// A row at a time, as a slice: the ids are not known.
// CHECK: scf.for
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}, 0] [1, 8] [1, 1] : tensor<32x8xbf16> to tensor<8xbf16>
// CHECK: arith.extf
// TILED-LABEL: func.func @gather_rows(

// CHECK-LABEL: func.func @linear(
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// TILED-LABEL: func.func @linear(

// CHECK-LABEL: func.func @linear_accumulate(
// CHECK-NOT: linalg.fill
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
// TILED-LABEL: func.func @linear_accumulate(

// CHECK-LABEL: func.func @mx_contract(
// Packed weights are read as [rows, groups, 16 bytes], never expanded.
// CHECK: tensor.expand_shape %{{.*}} {{\[}}[0], [1, 2]] output_shape [16, 2, 16] : tensor<16x32xi8> into tensor<16x2x16xi8>
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "reduction"]
// TILED-LABEL: func.func @mx_contract(

// CHECK-LABEL: func.func @rms_norm(
// CHECK: math.rsqrt
// TILED-LABEL: func.func @rms_norm(

// CHECK-LABEL: func.func @glu(
// CHECK-COUNT-2: math.tanh
// TILED-LABEL: func.func @glu(

// CHECK-LABEL: func.func @glu_swiglu(
// CHECK: math.exp
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// TILED-LABEL: func.func @glu_swiglu(

// CHECK-LABEL: func.func @sigmoid_gate(
// exp(-|x|) cannot overflow.
// CHECK: %[[ABS:.*]] = math.absf
// CHECK: %[[NEG:.*]] = arith.negf %[[ABS]]
// CHECK: math.exp %[[NEG]]
// TILED-LABEL: func.func @sigmoid_gate(

// CHECK-LABEL: func.func @sample(
// Loops over the vocabulary that carry scalars; nothing has its size.
// CHECK-NOT: tensor.empty
// CHECK: scf.for
// CHECK: scf.for {{.*}} -> (i32, i32, i32, i32)
// CHECK: arith.mului_extended
// CHECK: tensor.insert %{{.*}} into %{{.*}}[%{{.*}}] : tensor<?xi32>
// TILED-LABEL: func.func @sample(
