// Sizes of the results of the KDA ops are those of the destinations: no dim of a result is left.
// RUN: k3-opt %s --resolve-ranked-shaped-type-result-dims --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @short_conv(
// CHECK-SAME: %[[OUT:arg4]]: tensor<?x8xf32>{{.*}}%[[STATE:arg5]]: tensor<?x3x8xbf16>
func.func @short_conv(%x: tensor<?x8xf32>, %weight: tensor<8x4xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
                      %out: tensor<?x8xf32>,
                      %state: tensor<?x3x8xbf16>) -> (index, index) {
  %0:2 = k3.kda.short_conv ins(%x, %weight, %cu, %slots : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<?x8xf32>, tensor<?x3x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xbf16>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x8xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[STATE]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x3x8xbf16>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @gate_bounded(
// CHECK-SAME: %[[OUT:arg3]]: tensor<?x4x8xf32>
func.func @gate_bounded(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<6xf32>,
                        %out: tensor<?x4x8xf32>) -> index {
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<6xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x4x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x4x8xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @gate_softplus(
// CHECK-SAME: %[[OUT:arg3]]: tensor<?x4x8xf32>
func.func @gate_softplus(%z: tensor<?x4x8xf32>, %dt_bias: tensor<4x8xf32>, %a_log: tensor<4xf32>,
                         %out: tensor<?x4x8xf32>) -> index {
  %0 = k3.kda.gate ins(%z, %dt_bias : tensor<?x4x8xf32>, tensor<4x8xf32>) a_log(%a_log : tensor<4xf32>)
      outs(%out : tensor<?x4x8xf32>) {kind = #k3.gate_kind<softplus>} -> tensor<?x4x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x4x8xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}

// CHECK-LABEL: func.func @scan(
// CHECK-SAME: %[[OUT:arg7]]: tensor<?x4x16xf32>{{.*}}%[[STATE:arg8]]: tensor<?x4x16x8xf32>
func.func @scan(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>,
                %cu: tensor<?xi32>, %slots: tensor<?xi32>, %g: tensor<?x4x8xf32>,
                %out: tensor<?x4x16xf32>,
                %state: tensor<?x4x16x8xf32>) -> (index, index) {
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true, gate_bound = -5.0 : f64} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x16xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[STATE]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x16x8xf32>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @scan_per_head(
// CHECK-SAME: %[[OUT:arg7]]: tensor<?x4x16xf32>{{.*}}%[[STATE:arg8]]: tensor<?x4x16x8xf32>
func.func @scan_per_head(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>,
                         %cu: tensor<?xi32>, %slots: tensor<?xi32>, %g: tensor<?x4xf32>,
                         %out: tensor<?x4x16xf32>,
                         %state: tensor<?x4x16x8xf32>) -> (index, index) {
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      g(%g : tensor<?x4xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = false, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x16xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[STATE]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x16x8xf32>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @scan_linear_attention(
// CHECK-SAME: %[[OUT:arg6]]: tensor<?x4x16xf32>{{.*}}%[[STATE:arg7]]: tensor<?x4x16x8xf32>
func.func @scan_linear_attention(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>,
                                 %beta: tensor<?x4xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
                                 %out: tensor<?x4x16xf32>,
                                 %state: tensor<?x4x16x8xf32>) -> (index, index) {
  %0:2 = k3.kda.scan ins(%q, %k, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = false, delta = false} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x16xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[STATE]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x16x8xf32>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @recurrent_step(
// CHECK-SAME: %[[OUT:arg6]]: tensor<?x4x16xf32>{{.*}}%[[STATE:arg7]]: tensor<?x4x16x8xf32>
func.func @recurrent_step(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>,
                          %slots: tensor<?xi32>, %g: tensor<?x4x8xf32>,
                          %out: tensor<?x4x16xf32>,
                          %state: tensor<?x4x16x8xf32>) -> (index, index) {
  %0:2 = k3.kda.recurrent_step ins(%q, %k, %v, %beta, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>)
      g(%g : tensor<?x4x8xf32>) outs(%out, %state : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.25 : f64, l2norm = true, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x16xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[STATE]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x16x8xf32>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @chunk_prepare(
// CHECK-SAME: %[[QG:arg6]]: tensor<?x4x16x8xf32>{{.*}}%[[W:arg7]]: tensor<?x4x16x8xf32>{{.*}}%[[U:arg8]]: tensor<?x4x16x12xf32>{{.*}}%[[KD:arg9]]: tensor<?x4x16x8xf32>{{.*}}%[[AQK:arg10]]: tensor<?x4x16x16xf32>{{.*}}%[[GL:arg11]]: tensor<?x4x8xf32>
func.func @chunk_prepare(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %g: tensor<?x4x8xf32>,
                         %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                         %qg: tensor<?x4x16x8xf32>,
                         %w: tensor<?x4x16x8xf32>,
                         %u: tensor<?x4x16x12xf32>,
                         %kd: tensor<?x4x16x8xf32>,
                         %aqk: tensor<?x4x16x16xf32>,
                         %gl: tensor<?x4x8xf32>) -> (index, index, index, index, index, index) {
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>,
           tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<mid_row>}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
         tensor<?x4x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[QG]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x16x8xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[W]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x16x8xf32>
  // CHECK: %[[D2:.*]] = tensor.dim %[[U]], %c0
  %d2 = tensor.dim %0#2, %c0 : tensor<?x4x16x12xf32>
  // CHECK: %[[D3:.*]] = tensor.dim %[[KD]], %c0
  %d3 = tensor.dim %0#3, %c0 : tensor<?x4x16x8xf32>
  // CHECK: %[[D4:.*]] = tensor.dim %[[AQK]], %c0
  %d4 = tensor.dim %0#4, %c0 : tensor<?x4x16x16xf32>
  // CHECK: %[[D5:.*]] = tensor.dim %[[GL]], %c0
  %d5 = tensor.dim %0#5, %c0 : tensor<?x4x8xf32>
  // CHECK: return %[[D0]], %[[D1]], %[[D2]], %[[D3]], %[[D4]], %[[D5]]
  return %d0, %d1, %d2, %d3, %d4, %d5 : index, index, index, index, index, index
}

// CHECK-LABEL: func.func @chunk_prepare_pairwise(
// CHECK-SAME: %[[QG:arg6]]: tensor<?x4x16x8xf32>{{.*}}%[[W:arg7]]: tensor<?x4x16x8xf32>{{.*}}%[[U:arg8]]: tensor<?x4x16x12xf32>{{.*}}%[[KD:arg9]]: tensor<?x4x16x8xf32>{{.*}}%[[AQK:arg10]]: tensor<?x4x16x16xf32>{{.*}}%[[GL:arg11]]: tensor<?x4x8xf32>
func.func @chunk_prepare_pairwise(%q: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x12xf32>, %g: tensor<?x4x8xf32>,
                                  %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>,
                                  %qg: tensor<?x4x16x8xf32>,
                                  %w: tensor<?x4x16x8xf32>,
                                  %u: tensor<?x4x16x12xf32>,
                                  %kd: tensor<?x4x16x8xf32>,
                                  %aqk: tensor<?x4x16x16xf32>,
                                  %gl: tensor<?x4x8xf32>) -> (index, index, index, index, index, index) {
  %0:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x12xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>,
           tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>, tensor<?x4x8xf32>)
      {scale = 0.25 : f64, l2norm = true, anchor = #k3.anchor<pairwise>}
      -> tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
         tensor<?x4x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[QG]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x16x8xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[W]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x16x8xf32>
  // CHECK: %[[D2:.*]] = tensor.dim %[[U]], %c0
  %d2 = tensor.dim %0#2, %c0 : tensor<?x4x16x12xf32>
  // CHECK: %[[D3:.*]] = tensor.dim %[[KD]], %c0
  %d3 = tensor.dim %0#3, %c0 : tensor<?x4x16x8xf32>
  // CHECK: %[[D4:.*]] = tensor.dim %[[AQK]], %c0
  %d4 = tensor.dim %0#4, %c0 : tensor<?x4x16x16xf32>
  // CHECK: %[[D5:.*]] = tensor.dim %[[GL]], %c0
  %d5 = tensor.dim %0#5, %c0 : tensor<?x4x8xf32>
  // CHECK: return %[[D0]], %[[D1]], %[[D2]], %[[D3]], %[[D4]], %[[D5]]
  return %d0, %d1, %d2, %d3, %d4, %d5 : index, index, index, index, index, index
}

// CHECK-LABEL: func.func @chunk_scan(
// CHECK-SAME: %[[OUT:arg9]]: tensor<?x4x12xf32>{{.*}}%[[STATE:arg10]]: tensor<?x4x12x8xf32>
func.func @chunk_scan(%qg: tensor<?x4x16x8xf32>, %w: tensor<?x4x16x8xf32>, %u: tensor<?x4x16x12xf32>,
                      %kd: tensor<?x4x16x8xf32>, %aqk: tensor<?x4x16x16xf32>, %gl: tensor<?x4x8xf32>,
                      %chunks: tensor<?x2xi32>, %chunk_cu: tensor<?xi32>, %slots: tensor<?xi32>,
                      %out: tensor<?x4x12xf32>,
                      %state: tensor<?x4x12x8xf32>) -> (index, index) {
  %0:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %chunk_cu, %slots
      : tensor<?x4x16x8xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x12xf32>, tensor<?x4x16x8xf32>, tensor<?x4x16x16xf32>,
        tensor<?x4x8xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%out, %state : tensor<?x4x12xf32>, tensor<?x4x12x8xf32>) -> tensor<?x4x12xf32>, tensor<?x4x12x8xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0#0, %c0 : tensor<?x4x12xf32>
  // CHECK: %[[D1:.*]] = tensor.dim %[[STATE]], %c0
  %d1 = tensor.dim %0#1, %c0 : tensor<?x4x12x8xf32>
  // CHECK: return %[[D0]], %[[D1]]
  return %d0, %d1 : index, index
}

// CHECK-LABEL: func.func @gated_norm(
// CHECK-SAME: %[[OUT:arg3]]: tensor<?x4x12xf32>
func.func @gated_norm(%x: tensor<?x4x12xf32>, %gate: tensor<?x4x12xf32>, %weight: tensor<12xf32>,
                      %out: tensor<?x4x12xf32>) -> index {
  %0 = k3.kda.gated_norm ins(%x, %gate, %weight : tensor<?x4x12xf32>, tensor<?x4x12xf32>, tensor<12xf32>)
      outs(%out : tensor<?x4x12xf32>) {eps = 1.0e-05 : f64} -> tensor<?x4x12xf32>
  %c0 = arith.constant 0 : index
  // CHECK: %[[D0:.*]] = tensor.dim %[[OUT]], %c0
  %d0 = tensor.dim %0, %c0 : tensor<?x4x12xf32>
  // CHECK: return %[[D0]]
  return %d0 : index
}
