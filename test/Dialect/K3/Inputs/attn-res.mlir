// The structured ops of Block AttnRes, on tensors; destinations may be overwritten.

func.func @mix(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>, %proj_weight: tensor<1x8xbf16>,
               %out: tensor<?x8xf32> {bufferization.writable = true}) -> tensor<?x8xf32> {
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64}
      -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

func.func @mix_norm(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                    %proj_weight: tensor<1x8xbf16>, %out_weight: tensor<8xbf16>,
                    %out: tensor<?x8xbf16> {bufferization.writable = true}) -> tensor<?x8xbf16> {
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<?x8xbf16>) {eps = 1.0e-05 : f64, out_eps = 1.0e-05 : f64} -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

func.func @accumulate(%delta: tensor<?x8xf32>, %slot: index,
                      %stream: tensor<9x?x8xf32> {bufferization.writable = true}) -> tensor<9x?x8xf32> {
  %0 = k3.attn_res.accumulate ins(%delta, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>)
      -> tensor<9x?x8xf32>
  return %0 : tensor<9x?x8xf32>
}

func.func @accumulate_init(%delta: tensor<?x8xf32>, %slot: index,
                           %stream: tensor<9x?x8xf32> {bufferization.writable = true}) -> tensor<9x?x8xf32> {
  %0 = k3.attn_res.accumulate ins(%delta, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>) {init}
      -> tensor<9x?x8xf32>
  return %0 : tensor<9x?x8xf32>
}
