// RUN: k3-opt %s --k3-fuse-moe --remarks-filter=k3-fuse-moe --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

!rows = tensor<?x2x96xf32>
!flat = tensor<?x96xf32>

// REMARK: [Passed] GatedExperts | Category:k3-fuse-moe | Function=gated
// CHECK-LABEL: func.func @gated
func.func @gated(%x: tensor<?x32xf32>, %offsets: tensor<6xi32>, %perm: tensor<?x2xi32>, %w1: tensor<5x96x16xi8>, %s1: tensor<5x96x1xi8>,
                 %w3: tensor<5x96x16xi8>, %s3: tensor<5x96x1xi8>, %t: index) -> !rows {
  %a = tensor.empty(%t) : !rows
  %b = tensor.empty(%t) : !rows
  %c = tensor.empty(%t) : !rows
  // CHECK-NEXT: %[[OUT:.*]] = tensor.empty(%{{.*}}) : tensor<?x2x96xf32>
  // CHECK-NEXT: %[[R:.*]] = k3.latent_moe.grouped_contract ins(%arg0, %arg1, %arg2, %arg3 : {{.*}}) scale(%arg4 : {{.*}}) up_weight(%arg5 : {{.*}}) up_scale(%arg6 : {{.*}}) outs(%[[OUT]] : {{.*}}) {activation = #k3.activation<situ>, beta = 4.000000e+00 : f64, linear_beta = 2.500000e+01 : f64}
  // CHECK-NEXT: return %[[R]]
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w1 : tensor<?x32xf32>, tensor<6xi32>, tensor<?x2xi32>, tensor<5x96x16xi8>) scale(%s1 : tensor<5x96x1xi8>) outs(%a : !rows) -> !rows
  %1 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w3 : tensor<?x32xf32>, tensor<6xi32>, tensor<?x2xi32>, tensor<5x96x16xi8>) scale(%s3 : tensor<5x96x1xi8>) outs(%b : !rows) -> !rows
  %g = tensor.collapse_shape %0 [[0, 1], [2]] : !rows into !flat
  %u = tensor.collapse_shape %1 [[0, 1], [2]] : !rows into !flat
  %d = tensor.collapse_shape %c [[0, 1], [2]] : !rows into !flat
  %2 = k3.glu ins(%g, %u : !flat, !flat) outs(%d : !flat) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> !flat
  %3 = tensor.expand_shape %2 [[0, 1], [2]] output_shape [%t, 2, 96] : !flat into !rows
  return %3 : !rows
}

// Gate and up must read the same rows.
// REMARK: [Missed] GatedExperts {{.*}} Function=other_rows {{.*}}gate and up do not contract the same rows
// CHECK-LABEL: func.func @other_rows
func.func @other_rows(%x: tensor<?x32xf32>, %y: tensor<?x32xf32>, %offsets: tensor<6xi32>, %perm: tensor<?x2xi32>, %w1: tensor<5x96x32xbf16>,
                 %a: !rows, %b: !rows, %d: !flat, %t: index) -> !rows {
  // CHECK: k3.latent_moe.grouped_contract
  // CHECK: k3.latent_moe.grouped_contract
  // CHECK: k3.glu
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w1 : tensor<?x32xf32>, tensor<6xi32>, tensor<?x2xi32>, tensor<5x96x32xbf16>) outs(%a : !rows) -> !rows
  %1 = k3.latent_moe.grouped_contract ins(%y, %offsets, %perm, %w1 : tensor<?x32xf32>, tensor<6xi32>, tensor<?x2xi32>, tensor<5x96x32xbf16>) outs(%b : !rows) -> !rows
  %g = tensor.collapse_shape %0 [[0, 1], [2]] : !rows into !flat
  %u = tensor.collapse_shape %1 [[0, 1], [2]] : !rows into !flat
  %2 = k3.glu ins(%g, %u : !flat, !flat) outs(%d : !flat) {activation = #k3.activation<swiglu>} -> !flat
  %3 = tensor.expand_shape %2 [[0, 1], [2]] output_shape [%t, 2, 96] : !flat into !rows
  return %3 : !rows
}
