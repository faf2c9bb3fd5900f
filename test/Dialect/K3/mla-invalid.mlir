// RUN: k3-opt %s --split-input-file --verify-diagnostics

func.func @append_boundaries(%kv: tensor<?x12xf32>, %norm_weight: tensor<8xbf16>, %cu: tensor<2xi32>,
                             %lengths: tensor<2xi32>, %page_table: tensor<2x?xi32>, %cache: tensor<?x16x12xbf16>) {
  // expected-error @+1 {{'k3.mla.append' op expected 'N1' = N + 1 = 3, got 2}}
  %0 = k3.mla.append ins(%kv, %norm_weight, %cu, %lengths, %page_table
      : tensor<?x12xf32>, tensor<8xbf16>, tensor<2xi32>, tensor<2xi32>, tensor<2x?xi32>)
      outs(%cache : tensor<?x16x12xbf16>) {eps = 1.0e-06 : f64} -> tensor<?x16x12xbf16>
  return
}

// -----

func.func @append_latent(%kv: tensor<?x12xf32>, %norm_weight: tensor<13xbf16>, %cu: tensor<3xi32>,
                         %lengths: tensor<2xi32>, %page_table: tensor<2x?xi32>, %cache: tensor<?x16x12xbf16>) {
  // expected-error @+1 {{'k3.mla.append' op expected 'l' <= 'lr' = 12, got 13}}
  %0 = k3.mla.append ins(%kv, %norm_weight, %cu, %lengths, %page_table
      : tensor<?x12xf32>, tensor<13xbf16>, tensor<3xi32>, tensor<2xi32>, tensor<2x?xi32>)
      outs(%cache : tensor<?x16x12xbf16>) {eps = 1.0e-06 : f64} -> tensor<?x16x12xbf16>
  return
}

// -----

func.func @append_eps(%kv: tensor<?x12xf32>, %norm_weight: tensor<8xbf16>, %cu: tensor<3xi32>,
                      %lengths: tensor<2xi32>, %page_table: tensor<2x?xi32>, %cache: tensor<?x16x12xbf16>) {
  // expected-error @+1 {{'k3.mla.append' op expected finite 'eps' >= 0, got -1.000000e+00}}
  %0 = k3.mla.append ins(%kv, %norm_weight, %cu, %lengths, %page_table
      : tensor<?x12xf32>, tensor<8xbf16>, tensor<3xi32>, tensor<2xi32>, tensor<2x?xi32>)
      outs(%cache : tensor<?x16x12xbf16>) {eps = -1.0 : f64} -> tensor<?x16x12xbf16>
  return
}

// -----

func.func @absorb_nope_zero(%q: tensor<?x4x10xf32>, %kv_b: tensor<4x11x8xbf16>, %out: tensor<?x4x12xf32>) {
  // expected-error @+1 {{'k3.mla.absorb' op expected 0 < 'nope' < 'qd' = 10, got 0}}
  %0 = k3.mla.absorb ins(%q, %kv_b : tensor<?x4x10xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x12xf32>)
      {nope = 0 : i64} -> tensor<?x4x12xf32>
  return
}

// -----

func.func @absorb_nope_query(%q: tensor<?x4x10xf32>, %kv_b: tensor<4x11x8xbf16>, %out: tensor<?x4x12xf32>) {
  // expected-error @+1 {{'k3.mla.absorb' op expected 0 < 'nope' < 'qd' = 10, got 10}}
  %0 = k3.mla.absorb ins(%q, %kv_b : tensor<?x4x10xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x12xf32>)
      {nope = 10 : i64} -> tensor<?x4x12xf32>
  return
}

// -----

func.func @absorb_nope_weight(%q: tensor<?x4x10xf32>, %kv_b: tensor<4x5x8xbf16>, %out: tensor<?x4x12xf32>) {
  // expected-error @+1 {{'k3.mla.absorb' op expected 0 < 'nope' < 'nv' = 5, got 6}}
  %0 = k3.mla.absorb ins(%q, %kv_b : tensor<?x4x10xf32>, tensor<4x5x8xbf16>) outs(%out : tensor<?x4x12xf32>)
      {nope = 6 : i64} -> tensor<?x4x12xf32>
  return
}

// -----

func.func @absorb_out(%q: tensor<?x4x10xf32>, %kv_b: tensor<4x11x8xbf16>, %out: tensor<?x4x11xf32>) {
  // expected-error @+1 {{'k3.mla.absorb' op expected 'lr' = l + qd - nope = 12, got 11}}
  %0 = k3.mla.absorb ins(%q, %kv_b : tensor<?x4x10xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x11xf32>)
      {nope = 6 : i64} -> tensor<?x4x11xf32>
  return
}

// -----

func.func @attend_boundaries(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xbf16>, %cu: tensor<4xi32>,
                             %lengths: tensor<2xi32>, %page_table: tensor<2x?xi32>, %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.mla.attend' op expected 'N1' = N + 1 = 3, got 4}}
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<4xi32>, tensor<2xi32>, tensor<2x?xi32>)
      outs(%out : tensor<?x4x8xf32>) {scale = 0.3 : f64} -> tensor<?x4x8xf32>
  return
}

// -----

func.func @attend_latent(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xbf16>, %cu: tensor<3xi32>,
                         %lengths: tensor<2xi32>, %page_table: tensor<2x?xi32>, %out: tensor<?x4x13xf32>) {
  // expected-error @+1 {{'k3.mla.attend' op expected 'l' <= 'lr' = 12, got 13}}
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<3xi32>, tensor<2xi32>, tensor<2x?xi32>)
      outs(%out : tensor<?x4x13xf32>) {scale = 0.3 : f64} -> tensor<?x4x13xf32>
  return
}

// -----

func.func @expand_nope(%x: tensor<?x4x8xf32>, %kv_b: tensor<4x11x8xbf16>, %out: tensor<?x4x5xf32>) {
  // expected-error @+1 {{'k3.mla.expand' op expected 'nope' > 0, got 0}}
  %0 = k3.mla.expand ins(%x, %kv_b : tensor<?x4x8xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x5xf32>)
      {nope = 0 : i64} -> tensor<?x4x5xf32>
  return
}

// -----

func.func @expand_rows(%x: tensor<?x4x8xf32>, %kv_b: tensor<4x11x8xbf16>, %out: tensor<?x4x4xf32>) {
  // expected-error @+1 {{'k3.mla.expand' op expected 'nv' = nope + v = 10, got 11}}
  %0 = k3.mla.expand ins(%x, %kv_b : tensor<?x4x8xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x4xf32>)
      {nope = 6 : i64} -> tensor<?x4x4xf32>
  return
}

// -----

func.func @attend_rounded(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xf32>, %cu: tensor<3xi32>,
                          %lengths: tensor<2xi32>, %page_table: tensor<2x?xi32>, %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.mla.attend' op expected a bf16 'cache' with 'bf16_x', got 'f32'}}
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xf32>, tensor<3xi32>, tensor<2xi32>, tensor<2x?xi32>)
      outs(%out : tensor<?x4x8xf32>) {scale = 0.3 : f64, bf16_x} -> tensor<?x4x8xf32>
  return
}

// -----

func.func @partial_kinds(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xbf16>, %lengths: tensor<?xi32>,
                         %page_table: tensor<?x?xi32>, %out: tensor<?x4x8xf32>, %parts: tensor<3x3x4x8xf32>,
                         %states: tensor<3x3x4x3xf32>) {
  // expected-error @+1 {{'k3.mla.attend_partial' op expected 'two' = 2 = 2, got 3}}
  %0:3 = k3.mla.attend_partial ins(%q, %cache, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out, %parts, %states : tensor<?x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x3xf32>)
      {scale = 0.3 : f64, tile = 5 : i64} -> tensor<?x4x8xf32>, tensor<3x3x4x8xf32>, tensor<3x3x4x3xf32>
  return
}

// -----

func.func @partial_latent(%q: tensor<?x4x12xf32>, %cache: tensor<?x16x12xbf16>, %lengths: tensor<?xi32>,
                          %page_table: tensor<?x?xi32>, %out: tensor<?x4x13xf32>, %parts: tensor<3x2x4x13xf32>,
                          %states: tensor<3x2x4x2xf32>) {
  // expected-error @+1 {{'k3.mla.attend_partial' op expected 'l' <= 'lr' = 12, got 13}}
  %0:3 = k3.mla.attend_partial ins(%q, %cache, %lengths, %page_table
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out, %parts, %states : tensor<?x4x13xf32>, tensor<3x2x4x13xf32>, tensor<3x2x4x2xf32>)
      {scale = 0.3 : f64, tile = 5 : i64} -> tensor<?x4x13xf32>, tensor<3x2x4x13xf32>, tensor<3x2x4x2xf32>
  return
}

// -----

func.func @merge_tile(%parts: tensor<3x2x4x8xf32>, %states: tensor<3x2x4x2xf32>, %lengths: tensor<?xi32>,
                      %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.mla.attend_merge' op expected 'tile' >= 1, got 0}}
  %0 = k3.mla.attend_merge ins(%parts, %states, %lengths : tensor<3x2x4x8xf32>, tensor<3x2x4x2xf32>, tensor<?xi32>)
      outs(%out : tensor<?x4x8xf32>) {tile = 0 : i64} -> tensor<?x4x8xf32>
  return
}
