// RUN: k3-opt %s --split-input-file --verify-diagnostics

// What follows from every shape table.
func.func @rank(%x: tensor<2x3x8xf32>, %weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected 'x' to be [T d], got 'tensor<2x3x8xf32>'}}
  %0 = k3.rms_norm ins(%x, %weight : tensor<2x3x8xf32>, tensor<8xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @sizes(%x: tensor<?x8xf32>, %weight: tensor<9xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected equal sizes of 'd', got 8 in 'x' and 9 in 'weight'}}
  %0 = k3.rms_norm ins(%x, %weight : tensor<?x8xf32>, tensor<9xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @sizes_of_destination(%x: tensor<?x8xf32>, %weight: tensor<16x8xbf16>, %out: tensor<?x15xf32>) {
  // expected-error @+1 {{'k3.linear' op expected equal sizes of 'n', got 16 in 'weight' and 15 in 'out'}}
  %0 = k3.linear ins(%x, %weight : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%out : tensor<?x15xf32>)
      -> tensor<?x15xf32>
  return
}

// -----

func.func @mixed_tensor_and_memref(%x: tensor<?x8xf32>, %weight: memref<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected all operands to be tensors or all to be memrefs}}
  %0 = k3.rms_norm ins(%x, %weight : tensor<?x8xf32>, memref<8xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @memref_with_result(%x: memref<?x8xf32>, %weight: memref<8xbf16>, %out: memref<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected 0 results, got 1}}
  %0 = k3.rms_norm ins(%x, %weight : memref<?x8xf32>, memref<8xbf16>) outs(%out : memref<?x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @no_result(%x: tensor<?x8xf32>, %weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected 1 results, got 0}}
  k3.rms_norm ins(%x, %weight : tensor<?x8xf32>, tensor<8xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = 1.0e-05 : f64}
  return
}

// -----

func.func @result_type(%x: tensor<?x8xf32>, %weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected type of operand #2 ('tensor<?x8xf32>') to match type of corresponding result ('tensor<2x8xf32>')}}
  %0 = k3.rms_norm ins(%x, %weight : tensor<?x8xf32>, tensor<8xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = 1.0e-05 : f64} -> tensor<2x8xf32>
  return
}

// -----

// Constraints of single ops.
func.func @mx_contract_weight_type(%x: tensor<?x64xf32>, %weight: tensor<16x32xf32>, %scale: tensor<16x2xi8>,
                                   %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.mx.contract' op expected i8 'weight', got 'f32'}}
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x64xf32>, tensor<16x32xf32>, tensor<16x2xi8>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @mx_contract_scale_type(%x: tensor<?x64xf32>, %weight: tensor<16x32xi8>, %scale: tensor<16x2xbf16>,
                                  %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.mx.contract' op expected i8 'scale', got 'bf16'}}
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x64xf32>, tensor<16x32xi8>, tensor<16x2xbf16>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @mx_contract_group(%x: tensor<?x48xf32>, %weight: tensor<16x24xi8>, %scale: tensor<16x2xi8>,
                             %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.mx.contract' op expected 'k' to be a multiple of 32, got 48}}
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x48xf32>, tensor<16x24xi8>, tensor<16x2xi8>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @mx_contract_codes(%x: tensor<?x64xf32>, %weight: tensor<16x64xi8>, %scale: tensor<16x2xi8>,
                             %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.mx.contract' op expected 'kb' = k / 2 = 32, got 64}}
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x64xf32>, tensor<16x64xi8>, tensor<16x2xi8>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @mx_contract_scales(%x: tensor<?x64xf32>, %weight: tensor<16x32xi8>, %scale: tensor<16x4xi8>,
                              %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.mx.contract' op expected 'kg' = k / 32 = 2, got 4}}
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x64xf32>, tensor<16x32xi8>, tensor<16x4xi8>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @mx_contract_codes_of_scales(%x: tensor<?x?xf32>, %weight: tensor<16x32xi8>, %scale: tensor<16x4xi8>,
                                       %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.mx.contract' op expected 'kb' = 16 kg = 64, got 32}}
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x?xf32>, tensor<16x32xi8>, tensor<16x4xi8>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return
}

// -----

func.func @rms_norm_eps(%x: tensor<?x8xf32>, %weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.rms_norm' op expected finite 'eps' >= 0, got -1.000000e-05}}
  %0 = k3.rms_norm ins(%x, %weight : tensor<?x8xf32>, tensor<8xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = -1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @glu_beta(%gate: tensor<?x8xf32>, %up: tensor<?x8xf32>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.glu' op expected finite 'beta' > 0 with situ, got 0.000000e+00}}
  %0 = k3.glu ins(%gate, %up : tensor<?x8xf32>, tensor<?x8xf32>) outs(%out : tensor<?x8xf32>)
      {activation = #k3.activation<situ>, linear_beta = 25.0 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @glu_linear_beta(%gate: tensor<?x8xf32>, %up: tensor<?x8xf32>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.glu' op expected finite 'linear_beta' > 0 with situ, got -1.000000e+00}}
  %0 = k3.glu ins(%gate, %up : tensor<?x8xf32>, tensor<?x8xf32>) outs(%out : tensor<?x8xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = -1.0 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @sigmoid_gate_sizes(%x: tensor<?x8xf32>, %gate: tensor<?x16xf32>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.sigmoid_gate' op expected equal sizes of 'n', got 8 in 'x' and 16 in 'gate'}}
  %0 = k3.sigmoid_gate ins(%x, %gate : tensor<?x8xf32>, tensor<?x16xf32>) outs(%out : tensor<?x8xf32>)
      -> tensor<?x8xf32>
  return
}

// -----

func.func @gather_rows_width(%ids: tensor<?xi32>, %table: tensor<32x8xbf16>, %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.gather_rows' op expected equal sizes of 'd', got 8 in 'table' and 16 in 'out'}}
  %0 = k3.gather_rows ins(%ids, %table : tensor<?xi32>, tensor<32x8xbf16>) outs(%out : tensor<?x16xf32>)
      -> tensor<?x16xf32>
  return
}

// -----

func.func @linear_c1(%x: tensor<?x8xf32>, %weight: tensor<16x8xf32>, %out: tensor<?x16xf32>) {
  // expected-error @+1 {{'k3.linear' op expected a bf16 or MXFP4 'weight' with 'bf16_x', got 'f32'}}
  %0 = k3.linear ins(%x, %weight : tensor<?x8xf32>, tensor<16x8xf32>) outs(%out : tensor<?x16xf32>) {bf16_x}
      -> tensor<?x16xf32>
  return
}

// -----

func.func @linear_c2(%x: tensor<?x8xf32>, %weight: tensor<16x8xbf16>, %out: tensor<?x16xbf16>) {
  // expected-error @+1 {{'k3.linear' op expected an f32 'out' with 'accumulate', got 'bf16'}}
  %0 = k3.linear ins(%x, %weight : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%out : tensor<?x16xbf16>) {accumulate}
      -> tensor<?x16xbf16>
  return
}

// -----

func.func @sample_c1(%logits: tensor<?x70xf32>, %parameters: tensor<?x7xi32>, %banned: tensor<2x3xi32>, %ids: tensor<?xi32>) {
  // expected-error @+1 {{'k3.sample' op expected 'p' = 8 = 8, got 7}}
  %0 = k3.sample ins(%logits, %parameters, %banned : tensor<?x70xf32>, tensor<?x7xi32>, tensor<2x3xi32>)
      outs(%ids : tensor<?xi32>) -> tensor<?xi32>
  return
}

// -----

func.func @sample_c2(%logits: tensor<?x70xf32>, %parameters: tensor<?x8xi32>, %banned: tensor<2x2xi32>, %ids: tensor<?xi32>) {
  // expected-error @+1 {{'k3.sample' op expected 'w' = ceil(V / 32) = 3, got 2}}
  %0 = k3.sample ins(%logits, %parameters, %banned : tensor<?x70xf32>, tensor<?x8xi32>, tensor<2x2xi32>)
      outs(%ids : tensor<?xi32>) -> tensor<?xi32>
  return
}

// -----

func.func @sample_vocabulary(%logits: tensor<?x?xf32>, %parameters: tensor<?x8xi32>, %banned: tensor<2x3xi32>, %ids: tensor<?xi32>) {
  // expected-error @+1 {{'k3.sample' op expected a static 'V' of at least 1}}
  %0 = k3.sample ins(%logits, %parameters, %banned : tensor<?x?xf32>, tensor<?x8xi32>, tensor<2x3xi32>)
      outs(%ids : tensor<?xi32>) -> tensor<?xi32>
  return
}
