// RUN: k3-opt %s --k3-emit-binaries --split-input-file --verify-diagnostics

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
  // expected-error @+1 {{no kernel 'norm' in the module}}
  module @cpu {
  }
  k3.exec.kernel @norm in @cpu[0] from "k3.rms_norm"
}

// -----

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
  module @cpu {
  }
  // expected-error @+1 {{expected ordinals without gaps, got 2 after 0 kernels}}
  k3.exec.kernel @norm in @cpu[2] from "k3.rms_norm"
}

// -----

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
  module @cpu {
    // expected-error @below {{kernel 'fill' takes 79872 bytes of stack, at most 65536 are allowed}}
    llvm.func @fill(%args: !llvm.ptr, %workgroup: !llvm.ptr) -> i32 {
      %zero = llvm.mlir.constant(0 : i32) : i32
      llvm.call @fill.body(%args) : (!llvm.ptr) -> ()
      llvm.return %zero : i32
    }
    llvm.func internal @fill.body(%args: !llvm.ptr) {
      %count = llvm.mlir.constant(20000 : i64) : i64
      %buffer = llvm.alloca %count x i32 : (i64) -> !llvm.ptr
      llvm.store volatile %buffer, %args : !llvm.ptr, !llvm.ptr
      llvm.return
    }
  }
  k3.exec.kernel @fill in @cpu[0] from "k3.linear"
}
