// RUN: k3-opt %s --k3-verify-stage=stage=binaries --verify-diagnostics

module {
  // expected-error @+1 {{is not expected: only programs, kernels and executables}}
  module @cpu {
  }
}
