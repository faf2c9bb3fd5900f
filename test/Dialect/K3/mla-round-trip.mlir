// Text of the MLA ops on tensors, and on memrefs after bufferization.
// RUN: k3-opt %S/Inputs/mla.mlir --verify-roundtrip | FileCheck %s
// RUN: k3-opt %S/Inputs/mla.mlir --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" --verify-roundtrip \
// RUN:   | FileCheck %s --check-prefix=MEMREF

// CHECK-LABEL: func.func @append(
// CHECK: k3.mla.append {{.*}} {eps = 9.9999999999999995E-7 : f64}
// MEMREF-LABEL: func.func @append(
// MEMREF-NEXT: k3.mla.append {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @absorb(
// CHECK: k3.mla.absorb {{.*}} {nope = 6 : i64}
// MEMREF-LABEL: func.func @absorb(
// MEMREF-NEXT: k3.mla.absorb {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @attend(
// CHECK: k3.mla.attend {{.*}} {scale = 3.000000e-01 : f64}
// MEMREF-LABEL: func.func @attend(
// MEMREF-NEXT: k3.mla.attend {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @attend_partial(
// CHECK: k3.mla.attend_partial {{.*}} {scale = 3.000000e-01 : f64, tile = 5 : i64}
// MEMREF-LABEL: func.func @attend_partial(
// MEMREF-NEXT: k3.mla.attend_partial {{.*}}outs({{.*}} memref<{{[^>]*}}>, memref<{{[^>]*}}>, memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @attend_merge(
// CHECK: k3.mla.attend_merge {{.*}} {tile = 5 : i64}
// MEMREF-LABEL: func.func @attend_merge(
// MEMREF-NEXT: k3.mla.attend_merge {{.*}}outs({{.*}} memref<{{[^>]*}}>)

// CHECK-LABEL: func.func @expand(
// CHECK: k3.mla.expand {{.*}} {nope = 6 : i64}
// MEMREF-LABEL: func.func @expand(
// MEMREF-NEXT: k3.mla.expand {{.*}}outs({{.*}} memref<{{[^>]*}}>)
