// RUN: k3-opt %s --k3-form-dispatches --split-input-file --verify-diagnostics

// The old value of a destination is read after it was overwritten.
func.func @decode_head(%x: tensor<4x8xf32> {k3.buffer = "x"}, %norm: tensor<8xf32> {k3.weight = "norm"},
                       %y: tensor<4x8xf32> {k3.buffer = "y"}, %z: tensor<4x8xf32> {k3.buffer = "z"})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {k3.phase = #k3.phase<decode>} {
  // expected-error @+1 {{overwrites its operand #2, which is still used afterwards: that would take a copy}}
  %0 = k3.rms_norm ins(%x, %norm : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  // expected-note @+1 {{used here}}
  %1 = k3.rms_norm ins(%y, %norm : tensor<4x8xf32>, tensor<8xf32>) outs(%z : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

func.func @decode_head(%x: tensor<4x8xf32> {k3.weight = "x"}, %norm: tensor<8xf32> {k3.weight = "norm"})
    -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  // expected-error @+1 {{reads or writes a tensor that it also has as a destination}}
  %0 = k3.rms_norm ins(%x, %norm : tensor<4x8xf32>, tensor<8xf32>) outs(%x : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @decode_head(%x: tensor<4x8xf32> {k3.buffer = "x"}, %norm: tensor<8xf32> {k3.weight = "norm"},
                       %w: tensor<4x8xf32> {k3.weight = "w"})
    -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  // expected-error @+1 {{overwrites its operand #2, the k3.weight "w"}}
  %0 = k3.rms_norm ins(%x, %norm : tensor<4x8xf32>, tensor<8xf32>) outs(%w : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @decode_head(%norm: tensor<8xf32> {k3.weight = "norm"}, %y: tensor<4x8xf32> {k3.buffer = "y"})
    -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  %x = tensor.empty() : tensor<4x8xf32>
  // expected-error @+1 {{reads its operand #0, which was never written}}
  %0 = k3.rms_norm ins(%x, %norm : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected result #0 to update an argument in place}}
func.func @decode_head(%norm: tensor<8xf32> {k3.weight = "norm"}, %x: tensor<4x8xf32> {k3.buffer = "x"})
    -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  %y = tensor.empty() : tensor<4x8xf32>
  %0 = k3.rms_norm ins(%x, %norm : tensor<4x8xf32>, tensor<8xf32>) outs(%y : tensor<4x8xf32>) {eps = 1.0e-5 : f64} -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @decode_head(%y: tensor<4x8xf32> {k3.buffer = "y"}) -> tensor<4x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  // expected-error @+1 {{is not expected in a layer function of calls}}
  %0 = arith.addf %y, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected argument #0 to name its 1 dynamic dimensions in k3.dims, got 0}}
func.func @decode_head(%y: tensor<?x8xf32> {k3.buffer = "y"}) -> tensor<?x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  return %y : tensor<?x8xf32>
}
