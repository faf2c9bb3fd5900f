// RUN: k3-opt %s --k3-verify-stage=stage=dispatch --split-input-file --verify-diagnostics

// An op that is no call.
func.func @decode_head(%x: tensor<4x8xf32> {k3.buffer = "x"}, %w: tensor<8xf32> {k3.weight = "w"}, %y: tensor<4x8xf32> {k3.buffer = "y"})
    -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  // expected-error @+1 {{is not expected in a layer function of calls}}
  %0 = k3.rms_norm ins(%x, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @decode_head(%x: tensor<4x8xf32> {k3.buffer = "x"}) -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  // expected-error @+1 {{expected @k to be a kernel}}
  %0 = call @k(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @k(tensor<4x8xf32>) -> tensor<4x8xf32>

// -----

// expected-error @+1 {{expected a kernel to be private}}
func.func @k(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  return %x : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected a kernel to hold a structured op}}
func.func private @k(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  return %x : tensor<4x8xf32>
}

// -----

func.func private @k(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  // expected-error @+1 {{is the second structured op of a kernel}}
  %1 = k3.rms_norm ins(%0, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%z : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected the scalars of a kernel between its inputs and its destinations}}
func.func private @k(%i: index, %x: tensor<4x8xf32>, %w: tensor<8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected result #0 to have the type of its destination}}
func.func private @k(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %y: tensor<4x8xf32>, %z: tensor<4x8xbf16>) -> tensor<4x8xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
