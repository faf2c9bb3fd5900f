// RUN: k3-opt %s --k3-materialize-states --split-input-file --verify-diagnostics

func.func @unexpanded(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 3, f32, page = 64>, %q: tensor<14x8xbf16>,
    %kva: tensor<8x8xbf16>, %kvn: tensor<5xbf16>, %kvb: tensor<20x5xbf16>, %wo: tensor<8x12xbf16>) -> tensor<?x8xf32> {
  // expected-error@+1 {{'k3.mla.attention' op expected k3-expand-model-ops to have replaced every use of '!k3.seq', got operand #1}}
  %y, %cache1 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 4, rope_dim = 3, value_dim = 6)
      seq(%seq : !k3.seq) cache(%cache : <5 + 3, f32, page = 64>) kv_a_proj(%kva : tensor<8x8xbf16>)
      kv_a_layernorm(%kvn : tensor<5xbf16>) kv_b_proj(%kvb : tensor<20x5xbf16>) o_proj(%wo : tensor<8x12xbf16>)
      q_proj(%q : tensor<14x8xbf16>) {scale = 0.25 : f64, latent_eps = 1.0e-06 : f64}
  return %y : tensor<?x8xf32>
}

// -----

// expected-error@+1 {{expected output 'logits' to be made by an op with a new destination}}
func.func @output_is_an_argument(%x: tensor<?x32xf32>) -> (tensor<?x32xf32> {k3.output = "logits", k3.dims = ["R"]}) {
  return %x : tensor<?x32xf32>
}
