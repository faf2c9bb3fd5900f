// RUN: k3-opt %s --k3-fuse-projections --remarks-filter=k3-fuse-projections --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// Two chains from one input: first the heads of both chains, then what follows.
// REMARK: [Passed] ProjectionsTogether | Category:k3-fuse-projections | Function=chains | OpsInLevel=2, Projections=2
// CHECK-LABEL: func.func @chains
func.func @chains(%x: tensor<?x8xf32>, %w: tensor<8x8xbf16>, %v: tensor<8x8xbf16>, %n: tensor<8xf32>, %t: index) -> (tensor<?x8xf32>, tensor<?x2x4xf32>) {
  // CHECK: %[[A:.*]] = k3.linear ins(%arg0, %arg1
  // CHECK: tensor.empty
  // CHECK-NEXT: %[[B:.*]] = k3.linear ins(%arg0, %arg2
  // CHECK: k3.rms_norm ins(%[[A]]
  // CHECK: %[[D:.*]] = k3.rms_norm ins(%[[B]]
  // CHECK: tensor.expand_shape %[[D]]
  %e0 = tensor.empty(%t) : tensor<?x8xf32>
  %e1 = tensor.empty(%t) : tensor<?x8xf32>
  %e2 = tensor.empty(%t) : tensor<?x8xf32>
  %e3 = tensor.empty(%t) : tensor<?x8xf32>
  %a = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<8x8xbf16>) outs(%e0 : tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = k3.rms_norm ins(%a, %n : tensor<?x8xf32>, tensor<8xf32>) outs(%e1 : tensor<?x8xf32>) {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  %b = k3.linear ins(%x, %v : tensor<?x8xf32>, tensor<8x8xbf16>) outs(%e2 : tensor<?x8xf32>) -> tensor<?x8xf32>
  %d = k3.rms_norm ins(%b, %n : tensor<?x8xf32>, tensor<8xf32>) outs(%e3 : tensor<?x8xf32>) {eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  %h = tensor.expand_shape %d [[0], [1, 2]] output_shape [%t, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  return %c, %h : tensor<?x8xf32>, tensor<?x2x4xf32>
}

// The product depends on nothing but its arguments, but it overwrites what two others read before it: it comes last.
// CHECK-LABEL: func.func @overwrites_what_others_read
// CHECK-SAME: %[[S:[^:]*]]: tensor<2x?x8xf32>
func.func @overwrites_what_others_read(%stream: tensor<2x?x8xf32>, %x: tensor<?x8xf32>, %w: tensor<8x8xbf16>, %n: tensor<8xf32>, %pw: tensor<1x8xf32>, %t: index)
    -> (tensor<2x?x8xf32>, tensor<?x8xf32>) {
  %c1 = arith.constant 1 : index
  %e0 = tensor.empty(%t) : tensor<?x8xf32>
  %e1 = tensor.empty(%t) : tensor<?x8xf32>
  // CHECK: k3.linear ins(%{{.*}}) outs(%{{.*}})
  // CHECK: k3.attn_res.mix ins(%[[S]]
  // CHECK: %[[P:.*]] = tensor.extract_slice %[[S]]
  // CHECK-NEXT: %[[R:.*]] = k3.linear {{.*}} outs(%[[P]] : {{.*}}) {accumulate}
  // CHECK-NEXT: %[[NEW:.*]] = tensor.insert_slice %[[R]] into %[[S]]
  // CHECK-NEXT: return %[[NEW]]
  %y = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<8x8xbf16>) outs(%e0 : tensor<?x8xf32>) -> tensor<?x8xf32>
  %m = k3.attn_res.mix ins(%stream, %c1, %n, %pw : tensor<2x?x8xf32>, index, tensor<8xf32>, tensor<1x8xf32>) out_weight(%n : tensor<8xf32>) outs(%y : tensor<?x8xf32>) {eps = 1.0e-05 : f64, out_eps = 1.0e-05 : f64} -> tensor<?x8xf32>
  %p = tensor.extract_slice %stream[1, 0, 0] [1, %t, 8] [1, 1, 1] : tensor<2x?x8xf32> to tensor<?x8xf32>
  %r = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<8x8xbf16>) outs(%p : tensor<?x8xf32>) {accumulate} -> tensor<?x8xf32>
  %s = tensor.insert_slice %r into %stream[1, 0, 0] [1, %t, 8] [1, 1, 1] : tensor<?x8xf32> into tensor<2x?x8xf32>
  return %s, %m : tensor<2x?x8xf32>, tensor<?x8xf32>
}
