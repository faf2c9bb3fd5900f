// RUN: k3-opt %s --k3-configure-pipeline --k3-kernels-pipeline --verify-diagnostics --split-input-file

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "znver44", features = "">} {
  // expected-error @+1 {{unknown target CPU 'znver44'; similar names are znver4}}
  func.func private @kernel(%x: tensor<?x320xf32>, %w: tensor<256x320xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
      attributes {k3.kernel} {
    %0 = k3.linear ins(%x, %w : tensor<?x320xf32>, tensor<256x320xbf16>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
    return %0 : tensor<?x256xf32>
  }
}

// -----

// expected-error @+1 {{expected a 'k3.target' attribute on the module}}
func.func private @kernel(%x: tensor<?x320xf32>, %w: tensor<256x320xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x320xf32>, tensor<256x320xbf16>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}
