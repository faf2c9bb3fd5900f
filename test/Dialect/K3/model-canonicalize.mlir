// RUN: k3-opt %s --canonicalize | FileCheck %s
// RUN: k3-opt %s --cse | FileCheck %s --check-prefix=CSE

// Sublayers are values: what nobody uses is not computed, what is there twice is computed once.
// CHECK-LABEL: func.func @unused
// CHECK-NEXT: return %arg0
func.func @unused(%x: tensor<?x8xf32>, %gate: tensor<16x8xbf16>, %down: tensor<8x16xbf16>) -> tensor<?x8xf32> {
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate : tensor<16x8xbf16>) up_proj(%gate : tensor<16x8xbf16>)
      down_proj(%down : tensor<8x16xbf16>) {activation = #k3.activation<swiglu>}
  return %x : tensor<?x8xf32>
}

// CSE-LABEL: func.func @twice
// CSE: %[[Y:.*]] = k3.mlp
// CSE-NOT: k3.mlp
// CSE: return %[[Y]], %[[Y]]
func.func @twice(%x: tensor<?x8xf32>, %gate: tensor<16x8xbf16>, %down: tensor<8x16xbf16>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate : tensor<16x8xbf16>) up_proj(%gate : tensor<16x8xbf16>)
      down_proj(%down : tensor<8x16xbf16>) {activation = #k3.activation<swiglu>}
  %1 = k3.mlp %x : tensor<?x8xf32> gate_proj(%gate : tensor<16x8xbf16>) up_proj(%gate : tensor<16x8xbf16>)
      down_proj(%down : tensor<8x16xbf16>) {activation = #k3.activation<swiglu>}
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}

// A state that is used keeps its sublayer, even where the activations are not.
// CHECK-LABEL: func.func @state_used
// CHECK: %[[Y:.*]], %[[CACHE:.*]] = k3.mla.attention
// CHECK: return %[[CACHE]]
func.func @state_used(%x: tensor<?x8xf32>, %seq: !k3.seq, %cache: !k3.kv_cache<5 + 2, bf16, page = 4>,
                      %kv_a: tensor<7x8xbf16>, %kv_norm: tensor<5xbf16>, %kv_b: tensor<14x5xbf16>, %q: tensor<10x8xbf16>,
                      %o: tensor<8x8xbf16>) -> !k3.kv_cache<5 + 2, bf16, page = 4> {
  %0:2 = k3.mla.attention %x : tensor<?x8xf32> sizes(heads = 2, nope_dim = 3, rope_dim = 2, value_dim = 4) seq(%seq : !k3.seq)
      cache(%cache : !k3.kv_cache<5 + 2, bf16, page = 4>) kv_a_proj(%kv_a : tensor<7x8xbf16>)
      kv_a_layernorm(%kv_norm : tensor<5xbf16>) kv_b_proj(%kv_b : tensor<14x5xbf16>) o_proj(%o : tensor<8x8xbf16>)
      q_proj(%q : tensor<10x8xbf16>) {scale = 0.5 : f64, latent_eps = 1.0e-06 : f64}
  return %0#1 : !k3.kv_cache<5 + 2, bf16, page = 4>
}
