// The structured ops of KDA, on tensors; destinations may be overwritten.

func.func @short_conv(%x: tensor<?x8xf32>, %weight: tensor<8x4xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
                      %out: tensor<?x8xf32> {bufferization.writable = true},
                      %state: tensor<?x3x8xbf16> {bufferization.writable = true}) -> (tensor<?x8xf32>, tensor<?x3x8xbf16>) {
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<?x8xf32>, tensor<?x3x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xbf16>
  return %0#0, %0#1 : tensor<?x8xf32>, tensor<?x3x8xbf16>
}

func.func @gate_bounded(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<6xf32>,
                        %out: tensor<?x4x8xf32> {bufferization.writable = true}) -> tensor<?x4x8xf32> {
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<6xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func @gate_softplus(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<4xf32>,
                         %out: tensor<?x4x8xf32> {bufferization.writable = true}) -> tensor<?x4x8xf32> {
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<4xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<softplus>} -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func @scan(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>,
                %cu: tensor<?xi32>, %slots: tensor<?xi32>, %g: tensor<?x4x8xf32>,
                %out: tensor<?x4x16xf32> {bufferization.writable = true},
                %state: tensor<?x4x16x8xf32> {bufferization.writable = true}) -> (tensor<?x4x16xf32>, tensor<?x4x16x8xf32>) {
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true, gate_bound = -5.0 : f64} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return %0#0, %0#1 : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
}

// Gated DeltaNet: one decay per head.
func.func @scan_per_head(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>,
                         %cu: tensor<?xi32>, %slots: tensor<?xi32>, %g: tensor<?x4xf32>,
                         %out: tensor<?x4x16xf32> {bufferization.writable = true},
                         %state: tensor<?x4x16x8xf32> {bufferization.writable = true}) -> (tensor<?x4x16xf32>, tensor<?x4x16x8xf32>) {
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      g(%g : tensor<?x4xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = false, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return %0#0, %0#1 : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
}

// Linear attention: neither decay nor delta rule.
func.func @scan_linear_attention(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>,
                                 %beta: tensor<?x4xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
                                 %out: tensor<?x4x16xf32> {bufferization.writable = true},
                                 %state: tensor<?x4x16x8xf32> {bufferization.writable = true}) -> (tensor<?x4x16xf32>, tensor<?x4x16x8xf32>) {
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = false, delta = false} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return %0#0, %0#1 : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
}

func.func @recurrent_step(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>,
                          %slots: tensor<?xi32>, %g: tensor<?x4x8xf32>,
                          %out: tensor<?x4x16xf32> {bufferization.writable = true},
                          %state: tensor<?x4x16x8xf32> {bufferization.writable = true}) -> (tensor<?x4x16xf32>, tensor<?x4x16x8xf32>) {
  %0:2 = k3.kda.recurrent_step ins(%q, %k, %v, %beta, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return %0#0, %0#1 : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
}

func.func @decode_step(%q: tensor<?x32xf32>, %v: tensor<?x64xf32>, %z: tensor<?x4x8xf32>, %beta: tensor<?x4xf32>,
                       %gate: tensor<?x4x16xf32>, %qw: tensor<32x4xbf16>, %vw: tensor<64x4xbf16>, %dt_bias: tensor<4x8xf32>,
                       %nw: tensor<16xbf16>, %slots: tensor<?xi32>, %a_log: tensor<4xf32>,
                       %out: tensor<?x4x16xf32> {bufferization.writable = true},
                       %state: tensor<?x4x16x8xf32> {bufferization.writable = true},
                       %cq: tensor<?x3x32xbf16> {bufferization.writable = true},
                       %ck: tensor<?x3x32xbf16> {bufferization.writable = true},
                       %cv: tensor<?x3x64xbf16> {bufferization.writable = true})
    -> (tensor<?x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xbf16>, tensor<?x3x32xbf16>, tensor<?x3x64xbf16>) {
  %0:5 = k3.kda.decode_step ins(%q, %q, %v, %z, %beta, %gate, %qw, %qw, %vw, %dt_bias, %nw, %slots
      : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x64xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>,
        tensor<32x4xbf16>, tensor<32x4xbf16>, tensor<64x4xbf16>, tensor<4x8xf32>, tensor<16xbf16>, tensor<?xi32>)
      a_log(%a_log : tensor<4xf32>)
      outs(%out, %state, %cq, %ck, %cv
        : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xbf16>, tensor<?x3x32xbf16>, tensor<?x3x64xbf16>)
      {kind = #k3.gate_kind<softplus>, scale = 0.25 : f64, l2norm = true, delta = true, eps = 1.0e-05 : f64}
      -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xbf16>, tensor<?x3x32xbf16>, tensor<?x3x64xbf16>
  return %0#0, %0#1, %0#2, %0#3, %0#4
      : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>, tensor<?x3x32xbf16>, tensor<?x3x32xbf16>, tensor<?x3x64xbf16>
}

func.func @chunk_prepare(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %g: tensor<?x4x8xf32>,
                         %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                         %qg: tensor<?x4x16x8xf32> {bufferization.writable = true},
                         %w: tensor<?x4x16x8xf32> {bufferization.writable = true},
                         %u: tensor<?x4x16x12xf32> {bufferization.writable = true},
                         %kd: tensor<?x4x16x8xf32> {bufferization.writable = true},
                         %aqk: tensor<?x4x16x16xf32> {bufferization.writable = true},
                         %gl: tensor<?x4x8xf32> {bufferization.writable = true})
    -> (tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
        tensor<?x4x8xf32>) {
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>,
           tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<mid_row>}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
         tensor<?x4x8xf32>
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5
      : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
        tensor<?x4x8xf32>
}

// The anchor of unbounded gates.
func.func @chunk_prepare_pairwise(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %g: tensor<?x4x8xf32>,
                                  %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                                  %qg: tensor<?x4x16x8xf32> {bufferization.writable = true},
                                  %w: tensor<?x4x16x8xf32> {bufferization.writable = true},
                                  %u: tensor<?x4x16x12xf32> {bufferization.writable = true},
                                  %kd: tensor<?x4x16x8xf32> {bufferization.writable = true},
                                  %aqk: tensor<?x4x16x16xf32> {bufferization.writable = true},
                                  %gl: tensor<?x4x8xf32> {bufferization.writable = true})
    -> (tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
        tensor<?x4x8xf32>) {
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>,
           tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<pairwise>}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
         tensor<?x4x8xf32>
  return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5
      : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
        tensor<?x4x8xf32>
}

func.func @chunk_scan(%qg: tensor<?x4x16x8xf32>, %w: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>,
                      %kd: tensor<?x4x16x8xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>,
                      %chunks: tensor<?x2xi32>, %chunk_cu: tensor<?xi32>, %slots: tensor<?xi32>,
                      %out: tensor<?x4x12xf32> {bufferization.writable = true},
                      %state: tensor<?x4x12x8xf32> {bufferization.writable = true}) -> (tensor<?x4x12xf32>, tensor<?x4x12x8xf32>) {
  %0:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %chunk_cu, %slots
      : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
        tensor<?x4x8xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<?x4x12xf32>, tensor<?x4x12x8xf32>) -> tensor<?x4x12xf32>, tensor<?x4x12x8xf32>
  return %0#0, %0#1 : tensor<?x4x12xf32>, tensor<?x4x12x8xf32>
}

func.func @gated_norm(%x: tensor<?x4x12xf32>, %gate: tensor<?x4x12xf32>, %weight: tensor<12xf32>,
                      %out: tensor<?x4x12xf32> {bufferization.writable = true}) -> tensor<?x4x12xf32> {
  %0 = k3.kda.gated_norm ins(%x, %gate, %weight : tensor<?x4x12xf32>, tensor<?x4x12xf32>, tensor<12xf32>)
      outs(%out : tensor<?x4x12xf32>) {eps = 1.0e-05 : f64} -> tensor<?x4x12xf32>
  return %0 : tensor<?x4x12xf32>
}
