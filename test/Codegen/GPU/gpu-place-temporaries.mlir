// RUN: k3-opt %s --allow-unregistered-dialect --pass-pipeline='builtin.module(func.func(k3-gpu-place-temporaries,canonicalize,cse))' --split-input-file --verify-diagnostics | FileCheck %s

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// %a and %c do not live at the same time and share 1024 bytes; %b lives with both.
// CHECK-LABEL: @shares
// CHECK-SAME: %[[SHARED:[a-z0-9]+]]: !llvm.ptr<3> {k3.shared_memory})
// CHECK-SAME: k3.shared_bytes = 1088 : i64
// CHECK-NOT: memref.alloc
// CHECK-DAG: %[[A:.*]] = llvm.addrspacecast %[[SHARED]] : !llvm.ptr<3> to !llvm.ptr
// CHECK-DAG: %[[AT:.*]] = llvm.getelementptr inbounds %[[SHARED]][1024]
// CHECK-DAG: llvm.addrspacecast %[[AT]]
// CHECK: return
func.func private @shares() attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %a = memref.alloc() : memref<256xf32>
  %b = memref.alloc() : memref<16xf32>
  "test.use"(%a, %b) : (memref<256xf32>, memref<16xf32>) -> ()
  %c = memref.alloc() : memref<250xf32>
  "test.use"(%b, %c) : (memref<16xf32>, memref<250xf32>) -> ()
  return
}

// What is allocated before a loop and used in it lives as long as the loop; so does a view of it.
// CHECK-LABEL: @loop
// CHECK-SAME: k3.shared_bytes = 2048 : i64
func.func private @loop(%n: index) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.alloc() : memref<256xf32>
  %v = memref.subview %a[0] [128] [1] : memref<256xf32> to memref<128xf32, strided<[1]>>
  scf.for %i = %c0 to %n step %c1 {
    "test.use"(%v) : (memref<128xf32, strided<[1]>>) -> ()
    %b = memref.alloc() : memref<256xf32>
    "test.use"(%b) : (memref<256xf32>) -> ()
  }
  return
}

// Emitters have a plan of their own.
// CHECK-LABEL: @emitted
// CHECK: memref.alloc
func.func private @emitted() attributes {k3.kernel, k3.strategy = "row", k3.threads = 256 : i64} {
  %a = memref.alloc() : memref<256xf32>
  "test.use"(%a) : (memref<256xf32>) -> ()
  return
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// expected-error @+1 {{needs 240000 bytes of shared memory for its temporaries, and a block has 232448}}
func.func private @large() attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %a = memref.alloc() : memref<60000xf32>
  "test.use"(%a) : (memref<60000xf32>) -> ()
  return
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @unbounded(%n: index) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  // expected-error @+1 {{a kernel's temporary needs a constant upper bound of its size}}
  %a = memref.alloc(%n) : memref<?xf32>
  "test.use"(%a) : (memref<?xf32>) -> ()
  return
}
}
