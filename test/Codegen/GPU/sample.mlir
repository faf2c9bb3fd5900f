// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// Four runs of 16 bytes are in flight while the highest is looked for; weights are f64, sums are integers: shared memory adds
// 32 bits by itself, so that no other atomic operation and no loop around one is needed.
// CONFIG-LABEL: @sample
// CONFIG: strategy = "row", grid = [R / 1], threads = 1024, shared_bytes = 16784>
// CHECK-LABEL: .entry sample(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: fma.rn.f64
// CHECK: atom.shared.add.u32
// CHECK: red.shared.add.u32
// CHECK: mul.hi.u64
// CHECK-NOT: atom.global
// CHECK: ret;
// NVVM-LABEL: llvm.func @sample(
// NVVM-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: "atom.shared.add.u32
// NVVM-NOT: atom.global
// NVVM: llvm.return
func.func private @sample(%x: tensor<?x163840xf32>, %p: tensor<?x8xi32>, %b: tensor<16x5120xi32>, %y: tensor<?xi32>) -> tensor<?xi32> attributes {k3.kernel} {
  %0 = k3.sample ins(%x, %p, %b : tensor<?x163840xf32>, tensor<?x8xi32>, tensor<16x5120xi32>) outs(%y : tensor<?xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}

// A vocabulary that is no multiple of 4 logits: rows are not aligned.
// CONFIG-LABEL: @sample_odd
// CONFIG: strategy = "row", grid = [R / 1], threads = 64, shared_bytes = 16784>
// CHECK-LABEL: .entry sample_odd(
// CHECK: griddepcontrol.wait
// CHECK-NOT: ld.global.v4
// CHECK: ret;
// NVVM-LABEL: llvm.func @sample_odd(
// NVVM-NOT: vector<4x
// NVVM: llvm.return
func.func private @sample_odd(%x: tensor<?x130xf32>, %p: tensor<?x8xi32>, %b: tensor<16x5xi32>, %y: tensor<?xi32>) -> tensor<?xi32> attributes {k3.kernel} {
  %0 = k3.sample ins(%x, %p, %b : tensor<?x130xf32>, tensor<?x8xi32>, tensor<16x5xi32>) outs(%y : tensor<?xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}

// Sums over its tiles would not fit into shared memory: decomposed.
// CONFIG-LABEL: @sample_huge
// CONFIG: strategy = "generic"
func.func private @sample_huge(%x: tensor<?x4000000xf32>, %p: tensor<?x8xi32>, %b: tensor<16x125000xi32>, %y: tensor<?xi32>) -> tensor<?xi32> attributes {k3.kernel} {
  %0 = k3.sample ins(%x, %p, %b : tensor<?x4000000xf32>, tensor<?x8xi32>, tensor<16x125000xi32>) outs(%y : tensor<?xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
}
