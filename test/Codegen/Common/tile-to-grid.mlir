// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-tile-to-grid))' --split-input-file --verify-diagnostics | FileCheck %s

// The second loop alone is tiled: it stays the y dimension of the grid.
// CHECK-LABEL: func.func private @linear
// CHECK: scf.forall (%[[N:.*]]) = (0) to (256) step (64)
// CHECK: tensor.extract_slice %{{.*}}[%[[N]], 0] [64, 512]
// CHECK: k3.linear
// CHECK: mapping = [#gpu.block<y>]
func.func private @linear(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>)
      {kernel_config = #k3.kernel_config<tiles = [0, 64], strategy = "vector">} -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// -----

func.func private @unconfigured(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  // expected-error @+1 {{expected a 'kernel_config'}}
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}
