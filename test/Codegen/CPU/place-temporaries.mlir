// RUN: k3-opt %s --allow-unregistered-dialect --pass-pipeline='builtin.module(func.func(k3-place-temporaries{stack-limit=1024}))' --split-input-file --verify-diagnostics | FileCheck %s

// The smallest ones fit the stack together.
// CHECK-LABEL: func.func private @both
// CHECK-SAME: %[[SCRATCH:[^:]*]]: memref<2624xi8> {k3.scratch})
// CHECK-SAME: k3.scratch_bytes = 2624
// CHECK-DAG: %[[STACK:.*]] = memref.alloca() {alignment = 64 : i64} : memref<512xi8>
// CHECK-DAG: %[[OWN:.*]] = memref.alloca() {alignment = 64 : i64} : memref<128xf32>
// CHECK: %[[C:.*]] = memref.view %[[SCRATCH]][%{{.*}}][] : memref<2624xi8> to memref<512xf32>
// CHECK: %[[A:.*]] = memref.view %[[STACK]][%{{.*}}][%{{.*}}] : memref<512xi8> to memref<?x16xf32>
// CHECK: %[[D:.*]] = memref.view %[[SCRATCH]][%{{.*}}][] : memref<2624xi8> to memref<130xf32>
// CHECK: "test.use"(%[[A]], %[[OWN]], %[[C]], %[[D]])
func.func private @both(%n: index, %out: memref<2xindex>) attributes {k3.kernel} {
  %c8 = arith.constant 8 : index
  %size = arith.minsi %n, %c8 : index
  %c = memref.alloc() : memref<512xf32>
  %a = memref.alloc(%size) : memref<?x16xf32>
  %b = memref.alloc() : memref<128xf32>
  %d = memref.alloc() : memref<130xf32>
  "test.use"(%a, %b, %c, %d) : (memref<?x16xf32>, memref<128xf32>, memref<512xf32>, memref<130xf32>) -> ()
  return
}

// -----

func.func private @unbounded(%n: index) attributes {k3.kernel} {
  // expected-error @+1 {{needs a constant upper bound of its size}}
  %a = memref.alloc(%n) : memref<?x16xf32>
  "test.use"(%a) : (memref<?x16xf32>) -> ()
  return
}

// -----

// CHECK-LABEL: func.func private @copy
// CHECK-NOT: memref.copy
// CHECK: linalg.copy
// CHECK-NOT: memref.copy
// CHECK: return
func.func private @copy(%x: memref<16xf32>, %y: memref<16xf32>) attributes {k3.kernel} {
  memref.copy %x, %y : memref<16xf32> to memref<16xf32>
  memref.copy %x, %x : memref<16xf32> to memref<16xf32>
  return
}
