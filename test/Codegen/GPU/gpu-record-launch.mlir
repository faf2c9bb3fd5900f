// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-gpu-record-launch))' --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @norm
// CHECK-SAME: attributes {k3.kernel, k3.shared_bytes = 8 : i64, k3.strategy = "row", k3.threads = 64 : i64}
func.func private @norm(%x: tensor<?x512xf32>, %w: tensor<512xf32>, %y: tensor<?x512xf32>) -> tensor<?x512xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x512xf32>, tensor<512xf32>) outs(%y : tensor<?x512xf32>)
      {eps = 1.0e-5 : f64, kernel_config = #k3.kernel_config<tiles = [0], strategy = "row", grid = [T / 1], threads = 64, shared_bytes = 8>} -> tensor<?x512xf32>
  return %0 : tensor<?x512xf32>
}

// -----

func.func private @unconfigured(%x: tensor<?x512xf32>, %w: tensor<512xf32>, %y: tensor<?x512xf32>) -> tensor<?x512xf32> attributes {k3.kernel} {
  // expected-error @+1 {{expected a config with threads}}
  %0 = k3.rms_norm ins(%x, %w : tensor<?x512xf32>, tensor<512xf32>) outs(%y : tensor<?x512xf32>) {eps = 1.0e-5 : f64} -> tensor<?x512xf32>
  return %0 : tensor<?x512xf32>
}
