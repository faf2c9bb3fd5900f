// RUN: k3-opt %s --k3-chunk-kda --remarks-filter=k3-chunk-kda --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: k3-opt %s --k3-chunk-kda=rows=32 | FileCheck %s --check-prefix=ROWS32
// RUN: k3-opt %s --k3-chunk-kda='matrix-units fuse-gate' | FileCheck %s --check-prefix=MATRIX

// K3: |g| <= 5. Over 16 rows from the first one, exp(80); from the middle row, exp(40).
// REMARK: [Passed] ChunkedScan | Category:k3-chunk-kda | Function=bounded | {{.*}}Anchor=mid_row{{.*}}Rows=16
// CHECK-LABEL: func.func @bounded
// CHECK-SAME: %[[CU:.*]]: tensor<?xi32> {k3.dims = ["N+1"], k3.input = "cu"}, %[[SLOTS:.*]]: tensor<?xi32> {k3.dims = ["N"], k3.input = "slots"}, %[[CHUNKS:.*]]: tensor<?x2xi32> {k3.dims = ["C"], k3.input = "chunks"}, %[[CCU:.*]]: tensor<?xi32> {k3.dims = ["N+1"], k3.input = "chunk_cu"}, %[[O:.*]]: tensor<?x2x6xf32>, %[[S:.*]]: tensor<?x2x6x4xf32>)
func.func @bounded(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x4xf32>, %cu: tensor<?xi32> {k3.input = "cu", k3.dims = ["N+1"]},
    %slots: tensor<?xi32> {k3.input = "slots", k3.dims = ["N"]}, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>)
    attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: %[[C:.*]] = tensor.dim %[[CHUNKS]]
  // CHECK: tensor.empty(%[[C]]) : tensor<?x2x16x4xf32>
  // CHECK: %[[P:.*]]:6 = k3.kda.chunk_prepare ins(%arg0, %arg0, %arg1, %arg3, %arg2, %[[CHUNKS]] : {{.*}}tensor<?x2x16x4xf32>, tensor<?x2x16x4xf32>, tensor<?x2x16x6xf32>, tensor<?x2x16x4xf32>, tensor<?x2x16x16xf32>, tensor<?x2x4xf32>) {anchor = #k3.anchor<mid_row>, l2norm = true, scale = 5.000000e-01 : f64}
  // CHECK: %[[R:.*]]:2 = k3.kda.chunk_scan ins(%[[P]]#0, %[[P]]#1, %[[P]]#2, %[[P]]#3, %[[P]]#4, %[[P]]#5, %[[CHUNKS]], %[[CCU]], %[[SLOTS]] : {{.*}}) outs(%[[O]], %[[S]]
  // CHECK: return %[[R]]#0, %[[R]]#1
  // exp(80) at 32 rows even from the middle: tiles of 16 rows.
  // ROWS32-LABEL: func.func @bounded
  // ROWS32: k3.kda.chunk_prepare {{.*}}tensor<?x2x32x32xf32>{{.*}}{anchor = #k3.anchor<tile_row>
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true, gate_bound = -5.0 : f64} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// CHECK-LABEL: func.func @tightly_bounded
func.func @tightly_bounded(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x4xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: anchor = #k3.anchor<zero>
  // ROWS32-LABEL: func.func @tightly_bounded
  // ROWS32: anchor = #k3.anchor<mid_row>
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true, gate_bound = -3.5 : f64} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// Kimi-Linear. Two scans of one function share the new inputs.
// CHECK-LABEL: func.func @unbounded
// CHECK-COUNT-1: k3.input = "chunks"
// CHECK-NOT: k3.input = "chunks"
func.func @unbounded(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x4xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: anchor = #k3.anchor<pairwise>
  // CHECK: anchor = #k3.anchor<pairwise>
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  %1:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %1#0, %1#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// A gate that only the scan reads becomes part of prepare; its destination goes.
// CHECK-LABEL: func.func @gate
// CHECK: k3.kda.gate
// CHECK: k3.kda.chunk_prepare
// MATRIX-LABEL: func.func @gate(
// MATRIX-SAME: %arg0: tensor<?x2x4xf32>, %arg1: tensor<?x2x6xf32>, %arg2: tensor<?x2xf32>, %arg3: tensor<2x4xf32>, %arg4: tensor<2xf32>
// MATRIX-NOT: k3.kda.gate
// MATRIX: k3.kda.chunk_prepare ins(%arg0, %arg0, %arg1, %arg0, %arg2, %{{.*}} : {{.*}}) dt_bias(%arg3 : tensor<2x4xf32>) a_log(%arg4 : tensor<2xf32>) outs({{.*}} : tensor<?x2x16x4xf32>, tensor<?x2x16x4xf32>, tensor<?x2x16x6xf32>, tensor<?x2x16x4xf32>, tensor<?x2x16x16xf32>, tensor<?x2x4xf32>) {anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>, l2norm = true, scale = 5.000000e-01 : f64}
func.func @gate(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %bias: tensor<2x4xf32>, %rate: tensor<2xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %q, %c0 : tensor<?x2x4xf32>
  %empty = tensor.empty(%rows) : tensor<?x2x4xf32>
  %g = k3.kda.gate ins(%q, %bias : tensor<?x2x4xf32>, tensor<2x4xf32>) a_log(%rate : tensor<2xf32>) outs(%empty : tensor<?x2x4xf32>) {kind = #k3.gate_kind<softplus>} -> tensor<?x2x4xf32>
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// A gate with another reader stays.
// MATRIX-LABEL: func.func @gate_read_twice(
// MATRIX: %[[G:.*]] = k3.kda.gate
// MATRIX: k3.kda.chunk_prepare ins(%arg0, %arg0, %arg1, %[[G]], %arg2
// MATRIX-NOT: gate =
// MATRIX: return
func.func @gate_read_twice(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %bias: tensor<2x4xf32>, %rate: tensor<2xf32>, %cu: tensor<?xi32>, %g: tensor<?x2x4xf32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>, tensor<?x2x4xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  %made = k3.kda.gate ins(%q, %bias : tensor<?x2x4xf32>, tensor<2x4xf32>) a_log(%rate : tensor<2xf32>) outs(%g : tensor<?x2x4xf32>) {kind = #k3.gate_kind<softplus>} -> tensor<?x2x4xf32>
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%made : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1, %made : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>, tensor<?x2x4xf32>
}

// Heads of the right sizes get chunks of 64 rows and bf16 between the two ops; their exponents are taken by tiles.
// CHECK-LABEL: func.func @for_matrix_units
// CHECK: k3.kda.chunk_prepare {{.*}}tensor<?x2x16x64xf32>{{.*}}{anchor = #k3.anchor<mid_row>
// MATRIX-LABEL: func.func @for_matrix_units
// MATRIX: k3.kda.chunk_prepare {{.*}} outs({{.*}} : tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x128xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>) {anchor = #k3.anchor<tile_row>
// MATRIX: k3.kda.chunk_scan ins({{.*}}tensor<?x2x64x64xbf16>, tensor<?x2x64xf32>
func.func @for_matrix_units(%q: tensor<?x2x64xf32>, %v: tensor<?x2x128xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x64xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x128xf32>, %s: tensor<?x2x128x64xf32>) -> (tensor<?x2x128xf32>, tensor<?x2x128x64xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x64xf32>, tensor<?x2x64xf32>, tensor<?x2x128xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x64xf32>)
      outs(%o, %s : tensor<?x2x128xf32>, tensor<?x2x128x64xf32>) {scale = 0.5 : f64, l2norm = true, delta = true, gate_bound = -5.0 : f64} -> tensor<?x2x128xf32>, tensor<?x2x128x64xf32>
  return %0#0, %0#1 : tensor<?x2x128xf32>, tensor<?x2x128x64xf32>
}

// The scan's ancestors have no chunked form.
// REMARK: [Missed] ChunkedScan {{.*}} Function=ancestors {{.*}}no chunked form with no decay
// REMARK: [Missed] ChunkedScan {{.*}} Function=ancestors {{.*}}no chunked form with decay per head
// REMARK: [Missed] ChunkedScan {{.*}} Function=ancestors {{.*}}no chunked form with no delta rule
// CHECK-LABEL: func.func @ancestors
// CHECK-NOT: "chunks"
func.func @ancestors(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x4xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK-COUNT-3: k3.kda.scan
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  %1:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%beta : tensor<?x2xf32>)
      outs(%0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  %2:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%1#0, %1#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = false} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %2#0, %2#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// CHECK-LABEL: func.func @decode
func.func @decode(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x4xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<decode>} {
  // CHECK: k3.kda.scan
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true, gate_bound = -5.0 : f64} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}
