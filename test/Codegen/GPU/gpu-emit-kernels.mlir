// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-gpu-emit-kernels))' --split-input-file --verify-diagnostics | FileCheck %s

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// CHECK-LABEL: @row
// CHECK-SAME: %[[SHARED:[a-z0-9]+]]: !llvm.ptr<3> {k3.shared_memory})
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.getelementptr inbounds %[[SHARED]]
// CHECK: nvvm.barrier0
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK-NOT: k3.rms_norm
func.func private @row(%x: memref<?x512xf32>, %w: memref<512xf32>, %y: memref<?x512xf32>) attributes {k3.kernel} {
  k3.rms_norm ins(%x, %w : memref<?x512xf32>, memref<512xf32>) outs(%y : memref<?x512xf32>)
      {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 64, shared_bytes = 8>}
  return
}

// A row in a buffer with an offset and strides of its own.
// CHECK-LABEL: @strided
// CHECK: %{{.*}}, %[[OFFSET:.*]], %{{.*}}:2, %[[STRIDES:.*]]:2 = memref.extract_strided_metadata
func.func private @strided(%s: memref<3x?x512xf32>, %i: index, %n: index, %w: memref<512xf32>, %y: memref<?x512xf32>) attributes {k3.kernel} {
  %x = memref.subview %s[%i, 0, 0] [1, %n, 512] [1, 1, 1] : memref<3x?x512xf32> to memref<?x512xf32, strided<[512, 1], offset: ?>>
  k3.rms_norm ins(%x, %w : memref<?x512xf32, strided<[512, 1], offset: ?>>, memref<512xf32>) outs(%y : memref<?x512xf32>)
      {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 64, shared_bytes = 8>}
  return
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @unconfigured(%x: memref<?x512xf32>, %w: memref<512xf32>, %y: memref<?x512xf32>) attributes {k3.kernel} {
  // expected-error @+1 {{expected an emitter and a config for it}}
  k3.rms_norm ins(%x, %w : memref<?x512xf32>, memref<512xf32>) outs(%y : memref<?x512xf32>) {eps = 1.0e-5 : f64}
  return
}
}
