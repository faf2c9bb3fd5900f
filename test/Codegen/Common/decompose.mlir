// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-decompose))' | FileCheck %s

// The strategy decides: `generic` becomes upstream ops, `vector` waits for its emitter.
// CHECK-LABEL: func.func private @generic
// CHECK-NOT: k3.linear
// CHECK: linalg.generic
func.func private @generic(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>)
      {kernel_config = #k3.kernel_config<tiles = [0, 16], strategy = "generic">} -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// CHECK-LABEL: func.func private @vector
// CHECK: k3.linear
func.func private @vector(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>)
      {kernel_config = #k3.kernel_config<tiles = [0, 16], strategy = "vector">} -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}
