// RUN: k3-opt %s --k3-configure-pipeline --k3-kernels-pipeline -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=KERNELS < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-emit-binaries | FileCheck %s
// RUN: k3-opt %t.kernels.mlir --k3-binaries-pipeline --verify-roundtrip -o /dev/null

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
// KERNELS: module @cpu
// KERNELS: llvm.func @linear
// KERNELS: k3.exec.kernel @linear in @cpu[0] from ""

// The bytes start like an ELF file: 7F 45 4C 46.
// CHECK: k3.exec.executable @cpu target(<arch = "x86-64", cpu = "x86-64-v3", features = "">) elf(dense_resource<cpu> : tensor<{{[0-9]+}}xi8>)
// CHECK-NOT: module @cpu
// CHECK: k3.exec.kernel @linear in @cpu[0] from ""
// CHECK: dialect_resources
// CHECK: cpu: "0x080000007F454C46
func.func private @linear(%x: tensor<?x64xf32>, %w: tensor<32x64xbf16>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x64xf32>, tensor<32x64xbf16>) outs(%y : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
}
