// RUN: k3-opt %s --k3-verify-stage=stage=configure --split-input-file --verify-diagnostics

func.func private @k(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  // expected-error @+1 {{expected a kernel_config}}
  %0 = k3.rms_norm ins(%x, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func private @k(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  // expected-error @+1 {{expected a kernel_config with 1 tiles, got 2}}
  %0 = k3.rms_norm ins(%x, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [1, 2], strategy = "s">} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
