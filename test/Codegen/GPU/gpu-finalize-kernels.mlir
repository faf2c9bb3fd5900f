// RUN: k3-opt %s --k3-gpu-finalize-kernels | FileCheck %s

// A tensor map is 128 bytes of parameters.
// CHECK-LABEL: llvm.func @kernel
// CHECK-SAME: %{{[^:]*}}: !llvm.ptr {llvm.noalias},
// CHECK-SAME: %{{[^:]*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant})
// CHECK-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 384>, nvvm.minctasm = 1 : i32
llvm.func @kernel(%x: !llvm.ptr {llvm.noalias}, %map: !llvm.ptr {k3.tensor_map = 0 : i64})
    attributes {k3.kernel, k3.threads = 384 : i64, k3.min_blocks = 1 : i64} {
  llvm.return
}

// CHECK-LABEL: llvm.func @helper()
// CHECK-NOT: nvvm
llvm.func @helper() {
  llvm.return
}
