// RUN: k3-opt %s --allow-unregistered-dialect --pass-pipeline='builtin.module(func.func(k3-place-temporaries{stack-limit=1024}))' --split-input-file --verify-diagnostics | FileCheck %s

// 512 bytes fit the stack, 2048 do not.
// CHECK-LABEL: func.func private @both
// CHECK-SAME: %[[SCRATCH:[^:]*]]: memref<2048xi8> {k3.scratch})
// CHECK-SAME: k3.scratch_bytes = 2048
// CHECK: %[[STACK:.*]] = memref.alloca() {alignment = 64 : i64} : memref<512xi8>
// CHECK: memref.view %[[STACK]][%{{.*}}][%{{.*}}] : memref<512xi8> to memref<?x16xf32>
// CHECK: memref.view %[[SCRATCH]][%{{.*}}][] : memref<2048xi8> to memref<512xf32>
func.func private @both(%n: index, %out: memref<2xindex>) attributes {k3.kernel} {
  %c8 = arith.constant 8 : index
  %size = arith.minsi %n, %c8 : index
  %a = memref.alloc(%size) : memref<?x16xf32>
  %b = memref.alloc() : memref<512xf32>
  "test.use"(%a, %b) : (memref<?x16xf32>, memref<512xf32>) -> ()
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
