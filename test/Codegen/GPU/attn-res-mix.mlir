// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// Three rows of the stream (and one of weights) fit twice on a multiprocessor.
// CONFIG-LABEL: @mix
// CONFIG: strategy = "ring", grid = [T / 1], threads = 448, shared_bytes = 114912>
// CHECK-LABEL: .entry mix(
// CHECK: .maxntid 448
// CHECK: .minnctapersm 2
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: cp.async.cg.shared.global
// CHECK: cp.async.wait_group 1;
// CHECK: ld.shared.v4.b32
// CHECK: cp.async.cg.shared.global
// CHECK: shfl.sync.bfly
// CHECK: bar.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @mix(
// NVVM-SAME: nvvm.maxntid = array<i32: 448>, nvvm.minctasm = 2
// NVVM-COUNT-8: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
// NVVM: nvvm.cp.async.wait.group 1
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// NVVM: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
// NVVM: nvvm.shfl.sync  bfly
func.func private @mix(%s: tensor<9x?x7168xf32>, %n: tensor<7168xbf16>, %p: tensor<1x7168xbf16>, %w: tensor<7168xbf16>, %i: index, %y: tensor<?x7168xf32>) -> tensor<?x7168xf32> attributes {k3.kernel} {
  %0 = k3.attn_res.mix ins(%s, %i, %n, %p : tensor<9x?x7168xf32>, index, tensor<7168xbf16>, tensor<1x7168xbf16>) out_weight(%w : tensor<7168xbf16>) outs(%y : tensor<?x7168xf32>) {eps = 1.0e-5 : f64, out_eps = 1.0e-5 : f64} -> tensor<?x7168xf32>
  return %0 : tensor<?x7168xf32>
}

// A row that is not aligned is read directly.
// CHECK-LABEL: .entry odd(
// CHECK: griddepcontrol.wait
// CHECK-NOT: cp.async
// CHECK: ret;
// NVVM-LABEL: llvm.func @odd(
// NVVM-NOT: cp.async
// NVVM: nvvm.shfl.sync  bfly
// NVVM-NOT: cp.async
// NVVM: llvm.return
func.func private @odd(%s: tensor<9x?x33xf32>, %n: tensor<33xf32>, %p: tensor<1x33xf32>, %i: index, %y: tensor<?x33xf32>) -> tensor<?x33xf32> attributes {k3.kernel} {
  %0 = k3.attn_res.mix ins(%s, %i, %n, %p : tensor<9x?x33xf32>, index, tensor<33xf32>, tensor<1x33xf32>) outs(%y : tensor<?x33xf32>) {eps = 1.0e-5 : f64} -> tensor<?x33xf32>
  return %0 : tensor<?x33xf32>
}
}
