// REQUIRES: ptxas
// RUN: k3-opt %s --k3-emit-binaries | FileCheck %s
// What the runtime must know of a kernel's blocks is said beside its machine code.

#gpu = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">
module attributes {k3.target = #gpu} {
module @gpu attributes {k3.target = #gpu} {
llvm.func @waits(%count: !llvm.ptr<1>) attributes {k3.kernel, k3.resident, k3.strategy = "stream", nvvm.kernel, nvvm.maxntid = array<i32: 32>} {
  llvm.inline_asm has_side_effects asm_dialect = att "red.release.gpu.global.add.u32 [$0], 1;", "l" %count : (!llvm.ptr<1>) -> ()
  llvm.return
}
llvm.func @stands_alone(%count: !llvm.ptr<1>) attributes {k3.kernel, k3.strategy = "row", nvvm.kernel, nvvm.maxntid = array<i32: 32>} {
  llvm.return
}
}
// CHECK: k3.exec.kernel @waits in @gpu[0] from "" launch <threads = 32, registers = {{[0-9]+}}>
// CHECK-SAME: k3.resident
k3.exec.kernel @waits in @gpu[0] from "" launch <threads = 32>
// CHECK: k3.exec.kernel @stands_alone in @gpu[1]
// CHECK-NOT: k3.resident
k3.exec.kernel @stands_alone in @gpu[1] from "" launch <threads = 32>
}
