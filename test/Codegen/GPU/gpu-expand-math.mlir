// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-gpu-expand-math))' | FileCheck %s

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// CHECK-LABEL: @functions
// CHECK-NOT: math.
// CHECK: llvm.inline_asm asm_dialect = att "ex2.approx.ftz.f32 $0, $1;", "=f,f"
// CHECK: llvm.inline_asm asm_dialect = att "rsqrt.approx.ftz.f32 $0, $1;", "=f,f"
// CHECK: llvm.intr.copysign
// CHECK: llvm.inline_asm asm_dialect = att "lg2.approx.ftz.f32 $0, $1;", "=f,f"
// CHECK: return
func.func private @functions(%x: memref<4xf32>) attributes {k3.kernel, k3.strategy = "generic", k3.threads = 256 : i64} {
  %c0 = arith.constant 0 : index
  %0 = memref.load %x[%c0] : memref<4xf32>
  %1 = math.exp %0 : f32
  %2 = math.rsqrt %1 : f32
  %3 = math.tanh %2 : f32
  %4 = math.log1p %3 : f32
  memref.store %4, %x[%c0] : memref<4xf32>
  return
}
}
