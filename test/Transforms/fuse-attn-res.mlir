// RUN: k3-opt %s --k3-fuse-attn-res --remarks-filter=k3-fuse-attn-res --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// REMARK: [Passed] NormInMix | Category:k3-fuse-attn-res | Function=norm_after_mix
// CHECK-LABEL: func.func @norm_after_mix
// CHECK-SAME: (%[[S:.*]]: tensor<9x?x8xf32>, %[[N:.*]]: index, %[[NW:.*]]: tensor<8xbf16>, %[[PW:.*]]: tensor<1x8xbf16>, %[[OW:.*]]: tensor<8xf32>, %[[A:.*]]: tensor<?x8xf32>, %[[B:.*]]: tensor<?x8xf32>)
func.func @norm_after_mix(%stream: tensor<9x?x8xf32>, %n: index, %nw: tensor<8xbf16>, %pw: tensor<1x8xbf16>,
                          %ow: tensor<8xf32>, %a: tensor<?x8xf32>, %b: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK-NEXT: %[[R:.*]] = k3.attn_res.mix ins(%[[S]], %[[N]], %[[NW]], %[[PW]] : {{.*}}) out_weight(%[[OW]] : tensor<8xf32>) outs(%[[B]] : tensor<?x8xf32>) {eps = 1.000000e-05 : f64, out_eps = 2.500000e-01 : f64}
  // CHECK-NEXT: return %[[R]]
  %0 = k3.attn_res.mix ins(%stream, %n, %nw, %pw : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%a : tensor<?x8xf32>) {eps = 1.000000e-05 : f64} -> tensor<?x8xf32>
  %1 = k3.rms_norm ins(%0, %ow : tensor<?x8xf32>, tensor<8xf32>) outs(%b : tensor<?x8xf32>) {eps = 2.500000e-01 : f64} -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// The head picks rows between mix and norm.
// CHECK-LABEL: func.func @rows_between
func.func @rows_between(%stream: tensor<9x?x8xf32>, %n: index, %nw: tensor<8xbf16>, %pw: tensor<1x8xbf16>, %ow: tensor<8xf32>,
                        %ids: tensor<?xi32>, %t: index, %b: tensor<?x8xf32>, %c: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: %[[M:.*]] = k3.attn_res.mix {{.*}} out_weight(
  // CHECK-NEXT: %[[R:.*]] = k3.gather_rows ins(%{{.*}}, %[[M]] : tensor<?xi32>, tensor<?x8xf32>) outs(%arg8
  // CHECK-NEXT: return %[[R]]
  %a = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.attn_res.mix ins(%stream, %n, %nw, %pw : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%a : tensor<?x8xf32>) {eps = 1.000000e-05 : f64} -> tensor<?x8xf32>
  %1 = k3.gather_rows ins(%ids, %0 : tensor<?xi32>, tensor<?x8xf32>) outs(%b : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = k3.rms_norm ins(%1, %ow : tensor<?x8xf32>, tensor<8xf32>) outs(%c : tensor<?x8xf32>) {eps = 1.000000e-05 : f64} -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// Someone reads the mix itself.
// REMARK: [Missed] NormInMix {{.*}} Function=mix_read_twice {{.*}}also used without the norm
// CHECK-LABEL: func.func @mix_read_twice
func.func @mix_read_twice(%stream: tensor<9x?x8xf32>, %n: index, %nw: tensor<8xbf16>, %pw: tensor<1x8xbf16>,
                          %ow: tensor<8xf32>, %a: tensor<?x8xf32>, %b: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // CHECK: k3.attn_res.mix
  // CHECK-NOT: out_weight
  // CHECK: k3.rms_norm
  %0 = k3.attn_res.mix ins(%stream, %n, %nw, %pw : tensor<9x?x8xf32>, index, tensor<8xbf16>, tensor<1x8xbf16>) outs(%a : tensor<?x8xf32>) {eps = 1.000000e-05 : f64} -> tensor<?x8xf32>
  %1 = k3.rms_norm ins(%0, %ow : tensor<?x8xf32>, tensor<8xf32>) outs(%b : tensor<?x8xf32>) {eps = 1.000000e-05 : f64} -> tensor<?x8xf32>
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}
