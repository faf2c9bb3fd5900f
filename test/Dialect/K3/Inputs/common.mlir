// The structured ops every layer uses, on tensors; destinations may be overwritten.

func.func @gather_rows(%ids: tensor<?xi32>, %table: tensor<32x8xbf16>,
                       %out: tensor<?x8xf32> {bufferization.writable = true}) -> tensor<?x8xf32> {
  %0 = k3.gather_rows ins(%ids, %table : tensor<?xi32>, tensor<32x8xbf16>) outs(%out : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

func.func @linear(%x: tensor<?x8xf32>, %weight: tensor<16x8xbf16>,
                  %out: tensor<?x16xf32> {bufferization.writable = true}) -> tensor<?x16xf32> {
  %0 = k3.linear ins(%x, %weight : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

func.func @linear_accumulate(%x: tensor<?x8xf32>, %weight: tensor<16x8xbf16>,
                             %out: tensor<?x16xf32> {bufferization.writable = true}) -> tensor<?x16xf32> {
  %0 = k3.linear ins(%x, %weight : tensor<?x8xf32>, tensor<16x8xbf16>) outs(%out : tensor<?x16xf32>) {accumulate}
      -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

func.func @mx_contract(%x: tensor<?x64xf32>, %weight: tensor<16x32xi8>, %scale: tensor<16x2xi8>,
                       %out: tensor<?x16xf32> {bufferization.writable = true}) -> tensor<?x16xf32> {
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<?x64xf32>, tensor<16x32xi8>, tensor<16x2xi8>)
      outs(%out : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

func.func @rms_norm(%x: tensor<?x8xf32>, %weight: tensor<8xbf16>,
                    %out: tensor<?x8xf32> {bufferization.writable = true}) -> tensor<?x8xf32> {
  %0 = k3.rms_norm ins(%x, %weight : tensor<?x8xf32>, tensor<8xbf16>) outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64}
      -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

func.func @glu(%gate: tensor<?x8xf32>, %up: tensor<?x8xf32>,
               %out: tensor<?x8xf32> {bufferization.writable = true}) -> tensor<?x8xf32> {
  %0 = k3.glu ins(%gate, %up : tensor<?x8xf32>, tensor<?x8xf32>) outs(%out : tensor<?x8xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

func.func @glu_swiglu(%gate: tensor<?x8xf32>, %up: tensor<?x8xf32>,
                      %out: tensor<?x8xbf16> {bufferization.writable = true}) -> tensor<?x8xbf16> {
  %0 = k3.glu ins(%gate, %up : tensor<?x8xf32>, tensor<?x8xf32>) outs(%out : tensor<?x8xbf16>)
      {activation = #k3.activation<swiglu>} -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

func.func @sigmoid_gate(%x: tensor<?x8xf32>, %gate: tensor<?x8xf32>,
                        %out: tensor<?x8xf32> {bufferization.writable = true}) -> tensor<?x8xf32> {
  %0 = k3.sigmoid_gate ins(%x, %gate : tensor<?x8xf32>, tensor<?x8xf32>) outs(%out : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

func.func @sample(%logits: tensor<?x70xf32>, %parameters: tensor<?x8xi32>, %banned: tensor<2x3xi32>,
                  %ids: tensor<?xi32> {bufferization.writable = true}) -> tensor<?xi32> {
  %0 = k3.sample ins(%logits, %parameters, %banned : tensor<?x70xf32>, tensor<?x8xi32>, tensor<2x3xi32>)
      outs(%ids : tensor<?xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}
