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
