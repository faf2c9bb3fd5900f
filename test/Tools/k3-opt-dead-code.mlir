// Blocks that nobody reaches, with values that use themselves, do not keep the simplifications busy.
// RUN: timeout 20 k3-opt %s --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @f
// CHECK-NEXT: return
func.func @f(%a: index) -> index {
  return %a : index
^unreached(%x: index):
  %y = arith.addi %y, %x : index
  cf.br ^unreached(%y : index)
}
