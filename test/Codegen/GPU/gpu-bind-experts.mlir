// RUN: k3-opt %s --allow-unregistered-dialect --pass-pipeline='builtin.module(func.func(k3-gpu-bind-experts,canonicalize,cse))' --split-input-file --verify-diagnostics | FileCheck %s

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// A slice of a slice: features %f .. %f + 16 of expert %e start at 32 * f elements behind the expert's pointer.
// CHECK-LABEL: @kernel
// CHECK-SAME: (%[[W:[a-z0-9]+]]: memref<8x64x32xbf16> {k3.expert_group}, %[[E:[a-z0-9]+]]: index, %[[F:[a-z0-9]+]]: index
// CHECK: %[[BASE:.*]], %{{.*}}, %{{.*}}:3, %{{.*}}:3 = memref.extract_strided_metadata %[[W]]
// CHECK: %[[AT:.*]] = arith.index_cast %[[E]] : index to i64
// CHECK: %[[SLOT:.*]] = llvm.getelementptr inbounds %{{.*}}[%[[AT]]] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, !llvm.ptr<1>
// CHECK: %[[EXPERT:.*]] = llvm.load %[[SLOT]] invariant {alignment = 8 : i64} : !llvm.ptr<1> -> !llvm.ptr<1>
// CHECK: llvm.addrspacecast %[[EXPERT]]
// CHECK: %[[GROUP:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [1, 64, 32], strides: [2048, 32, 1]
// CHECK: %[[SLICE:.*]] = memref.subview %[[GROUP]][0, %[[F]], 0] [1, 16, 32] [1, 1, 1]
// CHECK: "test.use"(%[[SLICE]])
func.func private @kernel(%w: memref<8x64x32xbf16> {k3.expert_group}, %e: index, %f: index)
    attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %tile = memref.subview %w[0, %f, 0] [8, 16, 32] [1, 1, 1] : memref<8x64x32xbf16> to memref<8x16x32xbf16, strided<[2048, 32, 1], offset: ?>>
  %one = memref.subview %tile[%e, 0, 0] [1, 16, 32] [1, 1, 1] : memref<8x16x32xbf16, strided<[2048, 32, 1], offset: ?>> to memref<16x32xbf16, strided<[32, 1], offset: ?>>
  "test.use"(%one) : (memref<16x32xbf16, strided<[32, 1], offset: ?>>) -> ()
  return
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @all(%w: memref<8x64x32xbf16> {k3.expert_group}) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  // expected-error @+1 {{reads an expert group other than by experts}}
  "test.use"(%w) : (memref<8x64x32xbf16>) -> ()
  return
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @two(%w: memref<8x64x32xbf16> {k3.expert_group}) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  // expected-error @+1 {{expected a slice of one expert}}
  %two = memref.subview %w[0, 0, 0] [2, 64, 32] [1, 1, 1] : memref<8x64x32xbf16> to memref<2x64x32xbf16, strided<[2048, 32, 1]>>
  "test.use"(%two) : (memref<2x64x32xbf16, strided<[2048, 32, 1]>>) -> ()
  return
}
}
