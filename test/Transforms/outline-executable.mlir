// RUN: k3-opt %s --k3-outline-executable | FileCheck %s

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
// CHECK: module @cpu attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
// CHECK-NEXT: func.func @second(
// CHECK: func.func @first(
// CHECK: k3.exec.kernel @second in @cpu[0] from "k3.glu"
// CHECK-NEXT: k3.exec.kernel @first in @cpu[1] from ""
// CHECK-NOT: @unused
func.func private @second() attributes {k3.kernel, k3.source_op = "k3.glu"} {
  return
}
func.func private @first() attributes {k3.kernel} {
  return
}
func.func private @unused() attributes {k3.kernel} {
  return
}
// CHECK: k3.exec.program @decode
k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
    k3.exec.group {
      k3.exec.dispatch @second grid [] bindings [] scalars [] label ""
      k3.exec.dispatch @first grid [] bindings [] scalars [] label ""
      k3.exec.dispatch @second grid [] bindings [] scalars [] label ""
    }
  }
  k3.exec.epilogue weights [] {
  }
}
}
