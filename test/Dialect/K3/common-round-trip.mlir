// Text of the ops every layer uses on tensors, and on memrefs after bufferization.
// RUN: k3-opt %S/Inputs/common.mlir --verify-roundtrip | FileCheck %s
// RUN: k3-opt %S/Inputs/common.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --verify-roundtrip \
// RUN:   | FileCheck %s --check-prefix=MEMREF

// CHECK-LABEL: func.func @gather_rows(
// CHECK: k3.gather_rows ins(%{{.*}}, %{{.*}} : tensor<?xi32>, tensor<32x8xbf16>) outs(%{{.*}} : tensor<?x8xf32>) -> tensor<?x8xf32>
// MEMREF-LABEL: func.func @gather_rows(
// MEMREF-NEXT: k3.gather_rows {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @linear(
// CHECK: k3.linear ins(%{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%{{.*}} : tensor<?x16xf32>) -> tensor<?x16xf32>
// MEMREF-LABEL: func.func @linear(
// MEMREF-NEXT: k3.linear {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @linear_accumulate(
// CHECK: k3.linear {{.*}} outs(%{{.*}} : tensor<?x16xf32>) {accumulate} -> tensor<?x16xf32>
// MEMREF-LABEL: func.func @linear_accumulate(
// MEMREF-NEXT: k3.linear {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @mx_contract(
// CHECK: k3.mx.contract ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<16x32xi8>, tensor<16x2xi8>)
// MEMREF-LABEL: func.func @mx_contract(
// MEMREF-NEXT: k3.mx.contract {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @rms_norm(
// CHECK: k3.rms_norm {{.*}} {eps = 1.000000e-05 : f64}
// MEMREF-LABEL: func.func @rms_norm(
// MEMREF-NEXT: k3.rms_norm {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @glu(
// CHECK: k3.glu {{.*}} {activation = #k3.activation<situ>, beta = 4.000000e+00 : f64, linear_beta = 2.500000e+01 : f64}
// MEMREF-LABEL: func.func @glu(
// MEMREF-NEXT: k3.glu {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @glu_swiglu(
// CHECK: k3.glu {{.*}} {activation = #k3.activation<swiglu>} -> tensor<?x8xbf16>
// MEMREF-LABEL: func.func @glu_swiglu(
// MEMREF-NEXT: k3.glu {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @sigmoid_gate(
// CHECK: k3.sigmoid_gate ins(%{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x8xf32>) outs(
// MEMREF-LABEL: func.func @sigmoid_gate(
// MEMREF-NEXT: k3.sigmoid_gate {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @sample(
// CHECK: k3.sample ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x70xf32>, tensor<?x8xi32>, tensor<2x3xi32>) outs(%{{.*}} : tensor<?xi32>) -> tensor<?xi32>
// MEMREF-LABEL: func.func @sample(
// MEMREF-NEXT: k3.sample {{.*}}outs({{.*}} memref<{{[^>]*}}>)
