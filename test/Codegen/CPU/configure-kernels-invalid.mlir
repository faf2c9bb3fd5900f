// RUN: k3-opt %s --k3-configure-pipeline --verify-diagnostics --split-input-file

// expected-error @+1 {{expected exactly one structured op in a kernel, got none}}
func.func private @empty(%x: tensor<4xf32>) -> tensor<4xf32> attributes {k3.kernel} {
  return %x : tensor<4xf32>
}

// -----

func.func private @ranks(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  // expected-error @+1 {{expected 2 tile sizes, got 1}}
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>)
      {kernel_config = #k3.kernel_config<tiles = [4], strategy = "vector">} -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}
