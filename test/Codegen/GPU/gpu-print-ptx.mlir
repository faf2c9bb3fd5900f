// RUN: k3-opt %s --k3-gpu-print-ptx -o /dev/null | FileCheck %s

// The head and the declaration of shared memory are there once.
// CHECK: .version 8.6
// CHECK: .target sm_90a
// CHECK: .extern .shared .align 1024 .b8 k3_shared[];
// CHECK-LABEL: .entry first(
// CHECK: .param .align 64 .b8 first_param_1[128]
// CHECK: .maxntid 64
// CHECK: .minnctapersm 2
// CHECK-NOT: .version
// CHECK-NOT: .extern
// CHECK-LABEL: .entry second(
module {
module @gpu attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
llvm.mlir.global external @k3_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
llvm.func @first(%x: !llvm.ptr, %map: !llvm.ptr {llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64, nvvm.grid_constant})
    attributes {k3.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 64>, nvvm.minctasm = 2 : i32} {
  %shared = llvm.mlir.addressof @k3_shared : !llvm.ptr<3>
  %0 = llvm.load %map : !llvm.ptr -> i64
  %1 = llvm.load %shared : !llvm.ptr<3> -> i64
  %2 = llvm.add %0, %1 : i64
  llvm.store %2, %x : i64, !llvm.ptr
  llvm.return
}
llvm.func @second(%x: !llvm.ptr) attributes {k3.kernel, nvvm.kernel, nvvm.maxntid = array<i32: 64>} {
  %shared = llvm.mlir.addressof @k3_shared : !llvm.ptr<3>
  %0 = llvm.load %shared : !llvm.ptr<3> -> i64
  llvm.store %0, %x : i64, !llvm.ptr
  llvm.return
}
}
}
