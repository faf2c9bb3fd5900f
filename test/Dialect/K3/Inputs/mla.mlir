// The structured ops of gated MLA, on tensors; destinations may be overwritten.

func.func @append(%kv: tensor<?x12xf32>, %norm_weight: tensor<8xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                  %page_table: tensor<?x?xi32>,
                  %cache: tensor<?x16x12xbf16> {bufferization.writable = true}) -> tensor<?x16x12xbf16> {
  %0 = k3.mla.append ins(%kv, %norm_weight, %cu, %lengths, %page_table
      : tensor<?x12xf32>, tensor<8xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%cache : tensor<?x16x12xbf16>) {eps = 1.0e-06 : f64} -> tensor<?x16x12xbf16>
  return %0 : tensor<?x16x12xbf16>
}

func.func @absorb(%q: tensor<?x4x10xf32>, %kv_b: tensor<4x11x8xbf16>,
                  %out: tensor<?x4x12xf32> {bufferization.writable = true}) -> tensor<?x4x12xf32> {
  %0 = k3.mla.absorb ins(%q, %kv_b : tensor<?x4x10xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x12xf32>)
      {nope = 6 : i64} -> tensor<?x4x12xf32>
  return %0 : tensor<?x4x12xf32>
}

func.func @attend(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                  %page_table: tensor<?x?xi32>,
                  %out: tensor<?x4x8xf32> {bufferization.writable = true}) -> tensor<?x4x8xf32> {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x4x8xf32>) {scale = 0.3 : f64} -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func @attend_partial(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xbf16>, %lengths: tensor<?xi32>,
                          %page_table: tensor<?x?xi32>, %out: tensor<?x4x8xf32> {bufferization.writable = true},
                          %parts: tensor<3x2x4x8xf32> {bufferization.writable = true},
                          %states: tensor<3x2x4x2xf32> {bufferization.writable = true})
    -> (tensor<?x4x8xf32>, tensor<3x2x4x8xf32>, tensor<3x2x4x2xf32>) {
  %0:3 = k3.mla.attend_partial ins(%q, %cache, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out, %parts, %states : tensor<?x4x8xf32>, tensor<3x2x4x8xf32>, tensor<3x2x4x2xf32>)
      {scale = 0.3 : f64, tile = 5 : i64} -> tensor<?x4x8xf32>, tensor<3x2x4x8xf32>, tensor<3x2x4x2xf32>
  return %0#0, %0#1, %0#2 : tensor<?x4x8xf32>, tensor<3x2x4x8xf32>, tensor<3x2x4x2xf32>
}

func.func @attend_merge(%parts: tensor<3x2x4x8xf32>, %states: tensor<3x2x4x2xf32>, %lengths: tensor<?xi32>,
                        %out: tensor<?x4x8xf32> {bufferization.writable = true}) -> tensor<?x4x8xf32> {
  %0 = k3.mla.attend_merge ins(%parts, %states, %lengths : tensor<3x2x4x8xf32>, tensor<3x2x4x2xf32>, tensor<?xi32>)
      outs(%out : tensor<?x4x8xf32>) {tile = 5 : i64} -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func @expand(%x: tensor<?x4x8xf32>, %kv_b: tensor<4x11x8xbf16>,
                  %out: tensor<?x4x5xf32> {bufferization.writable = true}) -> tensor<?x4x5xf32> {
  %0 = k3.mla.expand ins(%x, %kv_b : tensor<?x4x8xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x5xf32>)
      {nope = 6 : i64} -> tensor<?x4x5xf32>
  return %0 : tensor<?x4x5xf32>
}
