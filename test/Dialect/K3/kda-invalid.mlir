// RUN: k3-opt %s --split-input-file --verify-diagnostics

func.func @conv_history(%x: tensor<?x8xf32>, %weight: tensor<8x4xf32>, %cu: tensor<3xi32>, %slots: tensor<2xi32>,
                        %out: tensor<?x8xf32>, %state: tensor<?x4x8xbf16>) {
  // expected-error @+1 {{'k3.kda.short_conv' op expected 'hist' = taps - 1 = 3, got 4}}
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots
      : tensor<?x8xf32>, tensor<8x4xf32>, tensor<3xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<?x8xf32>, tensor<?x4x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x4x8xbf16>
  return
}

// -----

func.func @conv_taps(%x: tensor<?x8xf32>, %weight: tensor<8x1xf32>, %cu: tensor<3xi32>, %slots: tensor<2xi32>,
                     %out: tensor<?x8xf32>, %state: tensor<?x0x8xbf16>) {
  // expected-error @+1 {{'k3.kda.short_conv' op expected 'taps' >= 2, got 1}}
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots
      : tensor<?x8xf32>, tensor<8x1xf32>, tensor<3xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<?x8xf32>, tensor<?x0x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x0x8xbf16>
  return
}

// -----

func.func @conv_boundaries(%x: tensor<?x8xf32>, %weight: tensor<8x4xf32>, %cu: tensor<2xi32>, %slots: tensor<2xi32>,
                           %out: tensor<?x8xf32>, %state: tensor<?x3x8xbf16>) {
  // expected-error @+1 {{'k3.kda.short_conv' op expected 'N1' = N + 1 = 3, got 2}}
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots
      : tensor<?x8xf32>, tensor<8x4xf32>, tensor<2xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<?x8xf32>, tensor<?x3x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xbf16>
  return
}

// -----

func.func @gate_no_bound(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<6xf32>,
                         %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.gate' op expected 'lower_bound' < 0 with bounded_sigmoid, got none}}
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<6xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>} -> tensor<?x4x8xf32>
  return
}

// -----

func.func @gate_positive_bound(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<6xf32>,
                               %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.gate' op expected finite 'lower_bound' < 0 with bounded_sigmoid, got 5.000000e+00}}
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<6xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = 5.0 : f64}
      -> tensor<?x4x8xf32>
  return
}

// -----

func.func @gate_softplus_bound(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<6xf32>,
                               %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.gate' op expected no 'lower_bound' with softplus, got -5.000000e+00}}
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<6xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<softplus>, lower_bound = -5.0 : f64} -> tensor<?x4x8xf32>
  return
}

// -----

func.func @gate_softplus_without_a_log(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.gate' op expected 'a_log' with softplus, got none}}
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) outs(%out : tensor<?x4x8xf32>)
      {kind = #k3.gate_kind<softplus>} -> tensor<?x4x8xf32>
  return
}

// -----

func.func @gate_short_a_log(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<3xf32>,
                            %out: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.gate' op expected 'H' >= 4 in 'a_log', got 3}}
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<3xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64}
      -> tensor<?x4x8xf32>
  return
}

// -----

func.func @scan_boundaries(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>,
                           %beta: tensor<?x4xf32>, %cu: tensor<4xi32>, %slots: tensor<2xi32>, %g: tensor<?x4x8xf32>,
                           %out: tensor<?x4x16xf32>, %state: tensor<?x4x16x8xf32>) {
  // expected-error @+1 {{'k3.kda.scan' op expected 'N1' = N + 1 = 3, got 4}}
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<4xi32>, tensor<2xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return
}

// -----

func.func @scan_gate_bound(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>,
                           %beta: tensor<?x4xf32>, %cu: tensor<3xi32>, %slots: tensor<2xi32>, %g: tensor<?x4x8xf32>,
                           %out: tensor<?x4x16xf32>, %state: tensor<?x4x16x8xf32>) {
  // expected-error @+1 {{'k3.kda.scan' op expected 'gate_bound' <= 0, got 5.000000e+00}}
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<3xi32>, tensor<2xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true, gate_bound = 5.0 : f64}
      -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return
}

// -----

func.func @scan_gate_rank(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>,
                          %beta: tensor<?x4xf32>, %cu: tensor<3xi32>, %slots: tensor<2xi32>, %g: tensor<?xf32>,
                          %out: tensor<?x4x16xf32>, %state: tensor<?x4x16x8xf32>) {
  // expected-error @+1 {{'k3.kda.scan' op expected 'g' to be [T H K?], got 'tensor<?xf32>'}}
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<3xi32>, tensor<2xi32>)
      g(%g : tensor<?xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return
}

// -----

// Key and value exchanged in the state.
func.func @scan_state_transposed(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>,
                                 %beta: tensor<?x4xf32>, %cu: tensor<3xi32>, %slots: tensor<2xi32>,
                                 %g: tensor<?x4x8xf32>, %out: tensor<?x4x8xf32>, %state: tensor<?x4x8x16xf32>) {
  // expected-error @+1 {{'k3.kda.scan' op expected equal sizes of 'V', got 16 in 'v' and 8 in 'out'}}
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<3xi32>, tensor<2xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x8xf32>, tensor<?x4x8x16xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true} -> tensor<?x4x8xf32>, tensor<?x4x8x16xf32>
  return
}

// -----

func.func @step_rows(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x16xf32>, %beta: tensor<2x4xf32>,
                     %slots: tensor<3xi32>, %g: tensor<2x4x8xf32>, %out: tensor<2x4x16xf32>,
                     %state: tensor<?x4x16x8xf32>) {
  // expected-error @+1 {{'k3.kda.recurrent_step' op expected equal sizes of 'N', got 2 in 'q' and 3 in 'slots'}}
  %0:2 = k3.kda.recurrent_step ins(%q, %k, %v, %beta, %slots
      : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x16xf32>, tensor<2x4xf32>, tensor<3xi32>)
      g(%g : tensor<2x4x8xf32>) outs(%out, %state : tensor<2x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true} -> tensor<2x4x16xf32>, tensor<?x4x16x8xf32>
  return
}

// -----

func.func @prepare_chunks(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %g: tensor<?x4x8xf32>,
                          %beta: tensor<?x4xf32>, %chunks: tensor<?x3xi32>, %qg: tensor<?x4x16x8xf32>,
                          %w: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>, %kd: tensor<?x4x16x8xf32>,
                          %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_prepare' op expected 'two' = first row and rows = 2, got 3}}
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x3xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>
  return
}

// -----

func.func @prepare_length(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %g: tensor<?x4x8xf32>,
                          %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>, %qg: tensor<?x4x8x8xf32>,
                          %w: tensor<?x4x8x8xf32>, %u: tensor<?x4x8x12xf32>, %kd: tensor<?x4x8x8xf32>,
                          %aqk: tensor<?x4x8x8xf32>, %gl: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_prepare' op expected 'L' = 16, 32 or 64, got 8}}
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x8x8xf32>, tensor<?x4x8x8xf32>, tensor<?x4x8x12xf32>, tensor<?x4x8x8xf32>, tensor<?x4x8x8xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>}
      -> tensor<?x4x8x8xf32>, tensor<?x4x8x8xf32>, tensor<?x4x8x12xf32>, tensor<?x4x8x8xf32>, tensor<?x4x8x8xf32>, tensor<?x4x8xf32>
  return
}

// -----

func.func @prepare_dynamic_length(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>,
                                  %g: tensor<?x4x8xf32>, %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                                  %qg: tensor<?x4x?x8xf32>, %w: tensor<?x4x?x8xf32>, %u: tensor<?x4x?x12xf32>,
                                  %kd: tensor<?x4x?x8xf32>, %aqk: tensor<?x4x?x?xf32>, %gl: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_prepare' op expected 'L' = 16, 32 or 64, got ?}}
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x12xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x?xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>}
      -> tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x12xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x?xf32>, tensor<?x4x8xf32>
  return
}

// -----

func.func @prepare_gate_without_bias(%q: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                                     %lk: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_prepare' op expected 'dt_bias' if and only if there is a 'gate'}}
  %0:6 = k3.kda.chunk_prepare ins(%q, %q, %v, %q, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%lk, %lk, %u, %lk, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>, gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>
  return
}

// -----

func.func @prepare_gate_without_rate(%q: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<4x8xf32>,
                                     %lk: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_prepare' op expected 'a_log' with softplus, got none}}
  %0:6 = k3.kda.chunk_prepare ins(%q, %q, %v, %q, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>) dt_bias(%bias : tensor<4x8xf32>)
      outs(%lk, %lk, %u, %lk, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>, gate = #k3.gate_kind<softplus>}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>
  return
}

// -----

func.func @prepare_bound_without_gate(%q: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                                      %lk: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_prepare' op expected no 'a_log' and no 'lower_bound' without 'gate'}}
  %0:6 = k3.kda.chunk_prepare ins(%q, %q, %v, %q, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%lk, %lk, %u, %lk, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<zero>, lower_bound = -5.0 : f64}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>
  return
}

// -----

func.func @chunk_scan_chunks(%qg: tensor<?x4x16x8xf32>, %w: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>,
                             %kd: tensor<?x4x16x8xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>,
                             %chunks: tensor<?x1xi32>, %chunk_cu: tensor<3xi32>, %slots: tensor<2xi32>,
                             %out: tensor<?x4x12xf32>, %state: tensor<?x4x12x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_scan' op expected 'two' = first row and rows = 2, got 1}}
  %0:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %chunk_cu, %slots
      : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>, tensor<?x1xi32>, tensor<3xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<?x4x12xf32>, tensor<?x4x12x8xf32>) -> tensor<?x4x12xf32>, tensor<?x4x12x8xf32>
  return
}

// -----

func.func @chunk_scan_boundaries(%qg: tensor<?x4x16x8xf32>, %w: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>,
                                 %kd: tensor<?x4x16x8xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>,
                                 %chunks: tensor<?x2xi32>, %chunk_cu: tensor<1xi32>, %slots: tensor<2xi32>,
                                 %out: tensor<?x4x12xf32>, %state: tensor<?x4x12x8xf32>) {
  // expected-error @+1 {{'k3.kda.chunk_scan' op expected 'N1' = N + 1 = 3, got 1}}
  %0:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %chunk_cu, %slots
      : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>, tensor<?x2xi32>, tensor<1xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<?x4x12xf32>, tensor<?x4x12x8xf32>) -> tensor<?x4x12xf32>, tensor<?x4x12x8xf32>
  return
}

// -----

func.func @gated_norm_eps(%x: tensor<?x4x12xf32>, %gate: tensor<?x4x12xf32>, %weight: tensor<12xf32>,
                          %out: tensor<?x4x12xf32>) {
  // expected-error @+1 {{'k3.kda.gated_norm' op expected finite 'eps' >= 0, got -1.000000e+00}}
  %0 = k3.kda.gated_norm ins(%x, %gate, %weight : tensor<?x4x12xf32>, tensor<?x4x12xf32>, tensor<12xf32>)
      outs(%out : tensor<?x4x12xf32>) {eps = -1.0 : f64} -> tensor<?x4x12xf32>
  return
}

// -----

func.func @decode_step_channels(%q: tensor<2x24xf32>, %v: tensor<2x64xf32>, %z: tensor<2x4x8xf32>, %beta: tensor<2x4xf32>,
                       %gate: tensor<2x4x16xf32>, %qw: tensor<24x4xf32>, %vw: tensor<64x4xf32>, %dt_bias: tensor<4x8xf32>,
                       %nw: tensor<16xf32>, %slots: tensor<2xi32>, %out: tensor<2x4x16xf32>, %state: tensor<?x4x16x8xf32>,
                       %cq: tensor<?x3x24xf32>, %cv: tensor<?x3x64xf32>) {
  // expected-error @+1 {{'k3.kda.decode_step' op expected 'CK' = H K = 32, got 24}}
  %0:5 = k3.kda.decode_step ins(%q, %q, %v, %z, %beta, %gate, %qw, %qw, %vw, %dt_bias, %nw, %slots
      : tensor<2x24xf32>, tensor<2x24xf32>, tensor<2x64xf32>, tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4x16xf32>,
        tensor<24x4xf32>, tensor<24x4xf32>, tensor<64x4xf32>, tensor<4x8xf32>, tensor<16xf32>, tensor<2xi32>)
      outs(%out, %state, %cq, %cq, %cv : tensor<2x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x24xf32>, tensor<?x3x24xf32>, tensor<?x3x64xf32>)
      {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.25 : f64, l2norm = true, delta = true, eps = 1.0e-5 : f64}
      -> tensor<2x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x24xf32>, tensor<?x3x24xf32>, tensor<?x3x64xf32>
  return
}

// -----

func.func @decode_step_rate(%q: tensor<2x32xf32>, %v: tensor<2x64xf32>, %z: tensor<2x4x8xf32>, %beta: tensor<2x4xf32>,
                       %gate: tensor<2x4x16xf32>, %qw: tensor<32x4xf32>, %vw: tensor<64x4xf32>, %dt_bias: tensor<4x8xf32>,
                       %nw: tensor<16xf32>, %slots: tensor<2xi32>, %out: tensor<2x4x16xf32>, %state: tensor<?x4x16x8xf32>,
                       %cq: tensor<?x3x32xf32>, %cv: tensor<?x3x64xf32>) {
  // expected-error @+1 {{'k3.kda.decode_step' op expected 'a_log' with softplus, got none}}
  %0:5 = k3.kda.decode_step ins(%q, %q, %v, %z, %beta, %gate, %qw, %qw, %vw, %dt_bias, %nw, %slots
      : tensor<2x32xf32>, tensor<2x32xf32>, tensor<2x64xf32>, tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4x16xf32>,
        tensor<32x4xf32>, tensor<32x4xf32>, tensor<64x4xf32>, tensor<4x8xf32>, tensor<16xf32>, tensor<2xi32>)
      outs(%out, %state, %cq, %cq, %cv : tensor<2x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xf32>, tensor<?x3x32xf32>, tensor<?x3x64xf32>)
      {kind = #k3.gate_kind<softplus>, scale = 0.25 : f64, l2norm = true, delta = true, eps = 1.0e-5 : f64}
      -> tensor<2x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xf32>, tensor<?x3x32xf32>, tensor<?x3x64xf32>
  return
}
