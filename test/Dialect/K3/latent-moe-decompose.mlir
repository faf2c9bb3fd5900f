// The LatentMoE ops in upstream ops, whole and as tiles.
// RUN: k3-opt %S/Inputs/latent-moe.mlir --k3-decompose-structured | FileCheck %s --implicit-check-not='k3.{{.}}'
// RUN: k3-opt %S/Inputs/latent-moe.mlir --transform-preload-library=transform-library-paths=%S/Inputs/tile.mlir \
// RUN:   --transform-interpreter --k3-decompose-structured | FileCheck %s --check-prefix=TILED --implicit-check-not='k3.{{.}}'

// CHECK-LABEL: func.func @route(
// The maximum, then the first place where it is.
// CHECK: arith.maximumf
// CHECK: arith.cmpf oeq
// CHECK: arith.minsi
// TILED-LABEL: func.func @route(

// CHECK-LABEL: func.func @plan(
// CHECK: linalg.fill
// CHECK: tensor.insert
// TILED-LABEL: func.func @plan(

// CHECK-LABEL: func.func @grouped_up(
// CHECK-COUNT-2: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: math.exp
// TILED-LABEL: func.func @grouped_up(

// CHECK-LABEL: func.func @grouped_up_mx(
// CHECK: tensor.expand_shape
// CHECK-COUNT-2: math.tanh
// TILED-LABEL: func.func @grouped_up_mx(

// CHECK-LABEL: func.func @grouped_down_mx(
// CHECK-NOT: math.tanh
// CHECK: arith.bitcast
// TILED-LABEL: func.func @grouped_down_mx(

// CHECK-LABEL: func.func @combine(
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel"]
// TILED-LABEL: func.func @combine(

// CHECK-LABEL: func.func @plan_counted(
// CHECK: linalg.fill
// CHECK: tensor.insert
// CHECK: %[[ZEROS:[0-9]+]] = linalg.fill ins(%{{.*}} : i32) outs(%arg1
// CHECK: return %[[ZEROS]],
// TILED-LABEL: func.func @plan_counted(

// Rows of the second product are those of the first.
// CHECK-LABEL: func.func @expert_mlp(
// CHECK: %[[INNER:[0-9]+]] = scf.for
// CHECK-COUNT-2: math.tanh
// CHECK: scf.for
// CHECK-NOT: math.tanh
// CHECK: tensor.extract_slice %[[INNER]]
// TILED-LABEL: func.func @expert_mlp(
