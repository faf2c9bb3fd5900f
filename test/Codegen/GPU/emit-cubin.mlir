// REQUIRES: ptxas
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=KERNELS < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-emit-binaries | FileCheck %s
// RUN: k3-opt %t.kernels.mlir --k3-binaries-pipeline --verify-roundtrip -o /dev/null

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// KERNELS: module @gpu
// KERNELS: llvm.mlir.global external @k3_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// KERNELS: llvm.func @norm(%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64)
// KERNELS-SAME: k3.shared_bytes = 32 : i64, k3.starts_early, k3.strategy = "row", k3.threads = 256 : i64
// KERNELS-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 256>
// KERNELS: k3.exec.kernel @norm in @gpu[0] from "" launch <threads = 256, shared_bytes = 32>

// A cubin is an ELF file: 7F 45 4C 46.
// CHECK: k3.exec.executable @gpu target(<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">) elf(dense_resource<gpu> : tensor<{{[0-9]+}}xi8>)
// CHECK-NOT: module @gpu
// CHECK: k3.exec.kernel @norm in @gpu[0] from "" launch <threads = 256, shared_bytes = 32, registers = {{[1-9][0-9]*}}>
// CHECK: dialect_resources
// CHECK: gpu: "0x080000007F454C46
func.func private @norm(%x: tensor<?x2048xf32>, %w: tensor<2048xbf16>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xbf16>) outs(%y : tensor<?x2048xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}
}
