// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-gpu-distribute-to-threads,canonicalize,cse))' --split-input-file --verify-diagnostics | FileCheck %s

#rows = affine_map<(i, j, k) -> (i, k)>
#columns = affine_map<(i, j, k) -> (j, k)>
#out = affine_map<(i, j, k) -> (i, j)>
module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// A block's row of tiles, element t, t + 256, ... for thread t; the reduction stays in the thread's registers.
// CHECK-LABEL: @product
// CHECK-SAME: (%[[X:[a-z0-9]+]]: memref<?x32xf32>, %[[W:[a-z0-9]+]]: memref<64x32xf32>, %[[Y:[a-z0-9]+]]: memref<?x64xf32>)
// CHECK: %[[BLOCK:.*]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK: %[[ID:.*]] = arith.index_cast %[[BLOCK]]
// CHECK: %[[ROW:.*]] = arith.muli %[[ID]], %c4
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %[[ROW]]
// CHECK: scf.if %[[INSIDE]] {
// CHECK: nvvm.barrier0
// CHECK: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: %[[T:.*]] = arith.index_cast %[[THREAD]]
// CHECK: scf.for %[[FLAT:.*]] = %[[T]] to %c256 step %c256 {
// CHECK:   %[[J:.*]] = arith.remui %[[FLAT]], %c64
// CHECK:   %[[I:.*]] = arith.divui %[[FLAT]], %c64
// CHECK:   %[[INIT:.*]] = memref.load %[[TILE:.*]][%[[I]], %[[J]]]
// CHECK:   %[[SUM:.*]] = scf.for %[[K:.*]] = %c0 to %c32 step %c1 iter_args(%[[ACC:.*]] = %[[INIT]])
// CHECK:     memref.load %{{.*}}[%[[I]], %[[K]]]
// CHECK:     memref.load %[[W]][%[[J]], %[[K]]]
// CHECK:     arith.addf %[[ACC]]
// CHECK:   memref.store %[[SUM]], %[[TILE]][%[[I]], %[[J]]]
// CHECK: nvvm.barrier0
// CHECK-NOT: nvvm.barrier0
// CHECK: return
func.func private @product(%x: memref<?x32xf32>, %w: memref<64x32xf32>, %y: memref<?x64xf32>)
    attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %c0 = arith.constant 0 : index
  %rows = memref.dim %x, %c0 : memref<?x32xf32>
  scf.forall (%i) = (0) to (%rows) step (4) {
    %xi = memref.subview %x[%i, 0] [4, 32] [1, 1] : memref<?x32xf32> to memref<4x32xf32, strided<[32, 1], offset: ?>>
    %yi = memref.subview %y[%i, 0] [4, 64] [1, 1] : memref<?x64xf32> to memref<4x64xf32, strided<[64, 1], offset: ?>>
    linalg.generic {indexing_maps = [#rows, #columns, #out], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%xi, %w : memref<4x32xf32, strided<[32, 1], offset: ?>>, memref<64x32xf32>) outs(%yi : memref<4x64xf32, strided<[64, 1], offset: ?>>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
    }
  } {mapping = [#gpu.block<x>]}
  return
}

// One thread stores an element that all have computed; nobody runs ahead to a later read.
// CHECK-LABEL: @scalar
// CHECK: memref.load
// CHECK: arith.addi
// CHECK: nvvm.barrier0
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32
// CHECK: scf.if %[[FIRST]] {
// CHECK:   memref.store
// CHECK: nvvm.barrier0
// CHECK: memref.load
func.func private @scalar(%x: memref<4xi32>) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = memref.load %x[%c0] : memref<4xi32>
  %1 = arith.addi %0, %0 : i32
  memref.store %1, %x[%c0] : memref<4xi32>
  %2 = memref.load %x[%c0] : memref<4xi32>
  memref.store %2, %x[%c1] : memref<4xi32>
  return
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @nested(%x: memref<4xi32>, %n: index) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %k = %c0 to %n step %c1 {
    // expected-error @+1 {{expected no parallel loop but that over the grid}}
    scf.forall (%i) in (4) {
      %0 = memref.load %x[%i] : memref<4xi32>
      memref.store %0, %x[%i] : memref<4xi32>
    } {mapping = [#gpu.block<x>]}
  }
  return
}
}
