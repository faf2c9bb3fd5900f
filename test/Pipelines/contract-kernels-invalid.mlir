// RUN: k3-opt %s --k3-verify-stage=stage=kernels --split-input-file --verify-diagnostics

// expected-error @+1 {{is not expected: only programs, kernels and modules with their code}}
func.func private @k()

// -----

module {
  module @cpu {
    // expected-error @+1 {{is not expected in the code of kernels: only the LLVM and NVVM dialects}}
    func.func private @k()
  }
}

// -----

module @cpu {
}
// expected-error @+1 {{expected a function of this name in @cpu}}
k3.exec.kernel @k in @cpu[0] from "k3.linear"
