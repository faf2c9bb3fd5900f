// RUN: k3-opt %s --k3-split-mla="blocks=12 heads=4 tile=8" --remarks-filter=k3-split-mla --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// Ten heads are three blocks of four, so there are four runs.
// REMARK: [Passed] SplitContext | Category:k3-split-mla | Function=decode{{.*}}Runs=4
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[Q:arg0]]: tensor<?x10x12xf32>
func.func @decode(%q: tensor<?x10x12xf32>, %cache: tensor<?x16x12xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                  %out: tensor<?x10x8xf32>) -> tensor<?x10x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  // CHECK-DAG: %[[PARTS:.*]] = tensor.empty() : tensor<4x2x10x8xf32>
  // CHECK-DAG: %[[STATES:.*]] = tensor.empty() : tensor<4x2x10x2xf32>
  // CHECK: %[[P:.*]]:3 = k3.mla.attend_partial ins(%[[Q]], %arg1, %arg3, %arg4 : {{.*}}) outs(%arg5, %[[PARTS]], %[[STATES]] : {{.*}}) {scale = 3.000000e-01 : f64, tile = 8 : i64}
  // CHECK: %[[M:.*]] = k3.mla.attend_merge ins(%[[P]]#1, %[[P]]#2, %arg3 : {{.*}}) outs(%[[P]]#0 : {{.*}}) {tile = 8 : i64}
  // CHECK-NEXT: return %[[M]]
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table : tensor<?x10x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x10x8xf32>) {scale = 0.3 : f64} -> tensor<?x10x8xf32>
  return %0 : tensor<?x10x8xf32>
}

// More blocks of heads than run side by side: one run.
// REMARK: [Passed] {{.*}}Function=many_heads{{.*}}Runs=1
// CHECK-LABEL: func.func @many_heads(
// CHECK: tensor<1x2x64x8xf32>
func.func @many_heads(%q: tensor<?x64x12xf32>, %cache: tensor<?x16x12xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                      %out: tensor<?x64x8xf32>) -> tensor<?x64x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table : tensor<?x64x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x64x8xf32>) {scale = 0.3 : f64} -> tensor<?x64x8xf32>
  return %0 : tensor<?x64x8xf32>
}

// Tensor cores do not read f32.
// REMARK: [Missed] {{.*}}Function=f32_cache{{.*}}the cache is not bf16
// CHECK-LABEL: func.func @f32_cache(
// CHECK: k3.mla.attend ins
func.func @f32_cache(%q: tensor<?x10x12xf32>, %cache: tensor<?x16x12xf32>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                     %out: tensor<?x10x8xf32>) -> tensor<?x10x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table : tensor<?x10x12xf32>, tensor<?x16x12xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x10x8xf32>) {scale = 0.3 : f64} -> tensor<?x10x8xf32>
  return %0 : tensor<?x10x8xf32>
}

// CHECK-LABEL: func.func @prefill(
// CHECK: k3.mla.attend ins
func.func @prefill(%q: tensor<?x10x12xf32>, %cache: tensor<?x16x12xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                   %out: tensor<?x10x8xf32>) -> tensor<?x10x8xf32> attributes {k3.phase = #k3.phase<prefill>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table : tensor<?x10x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x10x8xf32>) {scale = 0.3 : f64} -> tensor<?x10x8xf32>
  return %0 : tensor<?x10x8xf32>
}
