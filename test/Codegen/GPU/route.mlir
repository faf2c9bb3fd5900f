// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// CONFIG-LABEL: @route
// CONFIG: strategy = "warp", grid = [T / 4], threads = 128>
// CHECK-LABEL: .entry route(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-28: ex2.approx.ftz.f32
// CHECK: redux.sync.max.s32
// CHECK: redux.sync.min.s32
// CHECK: st.global.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @route(
// NVVM: nvvm.redux.sync.max
// NVVM: nvvm.redux.sync.min
func.func private @route(%x: tensor<?x896xf32>, %w: tensor<896xf32>, %y: tensor<?x16xi32>, %z: tensor<?x16xf32>) -> (tensor<?x16xi32>, tensor<?x16xf32>) attributes {k3.kernel} {
  %0:2 = k3.latent_moe.route ins(%x, %w : tensor<?x896xf32>, tensor<896xf32>) outs(%y, %z : tensor<?x16xi32>, tensor<?x16xf32>) {renormalize = true, scale = 2.5 : f64} -> tensor<?x16xi32>, tensor<?x16xf32>
  return %0#0, %0#1 : tensor<?x16xi32>, tensor<?x16xf32>
}

// 32 warps count 896 experts each in prefill; without atomic operations, so that the order is fixed.
// CONFIG-LABEL: @plan
// CONFIG: strategy = "block", grid = [1], threads = 1024, shared_bytes = 118400>
// CHECK-LABEL: .entry plan(
// CHECK: griddepcontrol.wait
// CHECK: match.any.sync.b32
// CHECK: bar.warp.sync
// CHECK-NOT: atom
// CHECK: ret;
// NVVM-LABEL: llvm.func @plan(
// NVVM: nvvm.match.any.sync.i32
// NVVM: nvvm.bar.warp.sync
func.func private @plan(%x: tensor<?x16xi32>, %y: tensor<897xi32>, %z: tensor<?x16xi32>) -> (tensor<897xi32>, tensor<?x16xi32>) attributes {k3.kernel} {
  %0:2 = k3.latent_moe.plan ins(%x : tensor<?x16xi32>) outs(%y, %z : tensor<897xi32>, tensor<?x16xi32>) -> tensor<897xi32>, tensor<?x16xi32>
  return %0#0, %0#1 : tensor<897xi32>, tensor<?x16xi32>
}
// CONFIG-LABEL: @plan_decode
// CONFIG: strategy = "block", grid = [1], threads = 896, shared_bytes = 104048>
func.func private @plan_decode(%x: tensor<?x16xi32>, %y: tensor<897xi32>, %z: tensor<?x16xi32>) -> (tensor<897xi32>, tensor<?x16xi32>) attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0:2 = k3.latent_moe.plan ins(%x : tensor<?x16xi32>) outs(%y, %z : tensor<897xi32>, tensor<?x16xi32>) -> tensor<897xi32>, tensor<?x16xi32>
  return %0#0, %0#1 : tensor<897xi32>, tensor<?x16xi32>
}
}
