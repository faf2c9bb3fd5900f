// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-grid-to-workgroups))' --split-input-file --verify-diagnostics | FileCheck %s

// The loop is mapped to y, so the second index argument places the tile.
// CHECK-LABEL: func.func private @kernel
// CHECK-SAME: %{{[^:]*}}: index {k3.workgroup_id}, %[[Y:[^:]*]]: index {k3.workgroup_id}, %{{[^:]*}}: index {k3.workgroup_id})
// CHECK-NOT: scf.forall
// CHECK: %[[AT:.*]] = arith.muli %[[Y]], %c64
// CHECK: memref.store %{{.*}}, %{{.*}}[%[[AT]]]
func.func private @kernel(%y: memref<256xf32>) attributes {k3.kernel} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%n) = (0) to (256) step (64) {
    memref.store %zero, %y[%n] : memref<256xf32>
  } {mapping = [#gpu.block<y>]}
  return
}

// -----

// expected-error @below {{expected at most one loop over the grid, got 2}}
func.func private @two(%y: memref<256xf32>) attributes {k3.kernel} {
  %zero = arith.constant 0.0 : f32
  scf.forall (%n) = (0) to (256) step (64) {
    memref.store %zero, %y[%n] : memref<256xf32>
  } {mapping = [#gpu.block<x>]}
  scf.forall (%n) = (0) to (256) step (64) {
    memref.store %zero, %y[%n] : memref<256xf32>
  } {mapping = [#gpu.block<x>]}
  return
}
