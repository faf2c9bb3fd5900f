// RUN: k3-opt %s --split-input-file --verify-diagnostics

func.func @mix_proj(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                    %proj_weight: tensor<2x8xbf16>, %out_weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.attn_res.mix' op expected 'one' = rows of proj_weight = 1, got 2}}
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<2x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64, out_eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @mix_eps(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                   %proj_weight: tensor<1x8xbf16>, %out_weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.attn_res.mix' op expected finite 'eps' >= 0, got -1.000000e+00}}
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<?x8xf32>) {eps = -1.0 : f64, out_eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @mix_weight_without_eps(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                                  %proj_weight: tensor<1x8xbf16>, %out_weight: tensor<8xbf16>,
                                  %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.attn_res.mix' op expected 'out_weight' and 'out_eps' together, got 'out_weight' only}}
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @mix_eps_without_weight(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                                  %proj_weight: tensor<1x8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.attn_res.mix' op expected 'out_weight' and 'out_eps' together, got 'out_eps' only}}
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%out : tensor<?x8xf32>)
      {eps = 1.0e-05 : f64, out_eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @mix_out_eps(%stream: tensor<9x?x8xf32>, %sources: index, %norm_weight: tensor<8xbf16>,
                       %proj_weight: tensor<1x8xbf16>, %out_weight: tensor<8xbf16>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{'k3.attn_res.mix' op expected finite 'out_eps' >= 0, got -1.000000e+00}}
  %0 = k3.attn_res.mix ins(%stream, %sources, %norm_weight, %proj_weight
      : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) out_weight(%out_weight : tensor<8xbf16>)
      outs(%out : tensor<?x8xf32>) {eps = 1.0e-05 : f64, out_eps = -1.0 : f64} -> tensor<?x8xf32>
  return
}

// -----

func.func @accumulate_hidden(%delta: tensor<?x8xf32>, %slot: index, %stream: tensor<9x?x9xf32>) {
  // expected-error @+1 {{'k3.attn_res.accumulate' op expected equal sizes of 'd', got 8 in 'delta' and 9 in 'stream'}}
  %0 = k3.attn_res.accumulate ins(%delta, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x9xf32>)
      -> tensor<9x?x9xf32>
  return
}
