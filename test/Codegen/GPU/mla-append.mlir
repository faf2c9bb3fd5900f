// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// CONFIG-LABEL: @append
// CONFIG: strategy = "warp", grid = [T / 4], threads = 128>
// CHECK-LABEL: .entry append(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: rsqrt.approx.ftz.f32
// CHECK: st.global.v2.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @append(
// NVVM-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: nvvm.convert.f32x2.to.bf16x2
func.func private @append(%x: tensor<?x576xf32>, %w: tensor<512xbf16>, %cu: tensor<?xi32>, %l: tensor<?xi32>, %p: tensor<?x?xi32>, %y: tensor<?x64x576xbf16>) -> tensor<?x64x576xbf16> attributes {k3.kernel} {
  %0 = k3.mla.append ins(%x, %w, %cu, %l, %p : tensor<?x576xf32>, tensor<512xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>) outs(%y : tensor<?x64x576xbf16>) {eps = 1.0e-6 : f64} -> tensor<?x64x576xbf16>
  return %0 : tensor<?x64x576xbf16>
}
}
