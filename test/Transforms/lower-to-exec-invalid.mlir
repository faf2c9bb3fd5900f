// RUN: k3-opt %s --k3-lower-to-exec --split-input-file --verify-diagnostics

// expected-error @+1 {{expected the module to have k3.layers}}
module {
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} {
    return
  }
}

// -----

module attributes {k3.layers = [{kind = "a"}]} {
  func.func @decode_embed(%x: tensor<4xf32> {k3.buffer = "x"}) -> tensor<4xf32> attributes {k3.phase = #k3.phase<decode>} {
    return %x : tensor<4xf32>
  }
  // expected-error @-3 {{expected a function @decode_layer_a}}
}

// -----

module attributes {k3.layers = []} {
  func.func @decode_embed(%x: tensor<4x4xf32> {k3.buffer = "x"}, %w: tensor<4xf32> {k3.weight = "w"}, %y: tensor<4x4xf32> {k3.buffer = "y"}) -> tensor<4x4xf32> attributes {k3.phase = #k3.phase<decode>} {
    %0 = call @norm(%x, %w, %y) : (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  func.func @decode_head(%x: tensor<4x4xf32> {k3.buffer = "x"}) -> tensor<4x4xf32> attributes {k3.phase = #k3.phase<decode>} {
    return %x : tensor<4x4xf32>
  }
  func.func private @norm(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {k3.kernel} {
    // expected-error @+1 {{expected a kernel_config with 1 tiles}}
    %0 = k3.rms_norm ins(%x, %w : tensor<4x4xf32>, tensor<4xf32>) outs(%y : tensor<4x4xf32>) {eps = 1.0e-5 : f64} -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}

// -----

// A layer function that no layer is made of.
module attributes {k3.layers = []} {
  func.func @decode_embed() attributes {k3.phase = #k3.phase<decode>} {
    return
  }
  func.func @decode_head() attributes {k3.phase = #k3.phase<decode>} {
    return
  }
  // expected-error @+1 {{belongs to no layer kind of k3.layers}}
  func.func @decode_layer_b() attributes {k3.phase = #k3.phase<decode>} {
    return
  }
}

// -----

module attributes {k3.layers = []} {
  func.func @decode_embed(%x: tensor<4x4xf32> {k3.buffer = "x"}, %w: tensor<4xf32> {k3.weight = "w"}) -> tensor<4x4xf32> attributes {k3.phase = #k3.phase<decode>} {
    %0 = call @same(%w, %x) : (tensor<4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  // expected-error @+1 {{expected buffer 'x' to be the same in all functions of the phase, got [#k3.term<5>, #k3.term<4>] of 'f32' after [#k3.term<4>, #k3.term<4>] of 'f32'}}
  func.func @decode_head(%x: tensor<5x4xf32> {k3.buffer = "x"}, %w: tensor<4xf32> {k3.weight = "w"}) -> tensor<5x4xf32> attributes {k3.phase = #k3.phase<decode>} {
    %0 = call @same5(%w, %x) : (tensor<4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    return %0 : tensor<5x4xf32>
  }
  func.func private @same(%w: tensor<4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {k3.kernel} {
    %ids = arith.constant dense<0> : tensor<4xi32>
    %table = arith.constant dense<0.0> : tensor<4x4xf32>
    %0 = k3.gather_rows ins(%ids, %table : tensor<4xi32>, tensor<4x4xf32>) outs(%x : tensor<4x4xf32>) {kernel_config = #k3.kernel_config<tiles = [1], strategy = "s">} -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  func.func private @same5(%w: tensor<4xf32>, %x: tensor<5x4xf32>) -> tensor<5x4xf32> attributes {k3.kernel} {
    %ids = arith.constant dense<0> : tensor<5xi32>
    %table = arith.constant dense<0.0> : tensor<4x4xf32>
    %0 = k3.gather_rows ins(%ids, %table : tensor<5xi32>, tensor<4x4xf32>) outs(%x : tensor<5x4xf32>) {kernel_config = #k3.kernel_config<tiles = [1], strategy = "s">} -> tensor<5x4xf32>
    return %0 : tensor<5x4xf32>
  }
}
