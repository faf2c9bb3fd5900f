// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-gpu-configure-kernels))' --split-input-file --verify-diagnostics | FileCheck %s

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
// The phase has done its work.
// CHECK-LABEL: @emitted
// CHECK-SAME: attributes {k3.kernel} {
// CHECK: kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 256, shared_bytes = 32>
func.func private @emitted(%x: tensor<?x2048xf32>, %w: tensor<2048xf32>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32>
    attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xf32>) outs(%y : tensor<?x2048xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}

// CHECK-LABEL: @given
// CHECK: kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 64, shared_bytes = 8>
func.func private @given(%x: tensor<?x2048xf32>, %w: tensor<2048xf32>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xf32>) outs(%y : tensor<?x2048xf32>)
      {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 64, shared_bytes = 8>} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}

// CHECK-LABEL: @not_a_kernel
// CHECK-NOT: kernel_config
func.func @not_a_kernel(%x: tensor<?x2048xf32>, %w: tensor<2048xf32>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32> {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xf32>) outs(%y : tensor<?x2048xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @much(%x: tensor<?x2048xf32>, %w: tensor<2048xf32>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32> attributes {k3.kernel} {
  // expected-error @+1 {{expected at most 232448 bytes of shared memory, got 232449}}
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xf32>) outs(%y : tensor<?x2048xf32>)
      {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", threads = 64, shared_bytes = 232449>} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {
func.func private @threads(%x: tensor<?x2048xf32>, %w: tensor<2048xf32>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32> attributes {k3.kernel} {
  // expected-error @+1 {{expected threads in the config of a GPU's kernel}}
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xf32>) outs(%y : tensor<?x2048xf32>)
      {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [0], strategy = "row">} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}
}

// -----

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_80", features = "">} {
// expected-error @+1 {{unknown NVIDIA chip 'sm_80'; known is sm_90a (target nvidia-sm90a)}}
func.func private @chip(%x: tensor<?x2048xf32>, %w: tensor<2048xf32>, %y: tensor<?x2048xf32>) -> tensor<?x2048xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2048xf32>, tensor<2048xf32>) outs(%y : tensor<?x2048xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2048xf32>
  return %0 : tensor<?x2048xf32>
}
}
