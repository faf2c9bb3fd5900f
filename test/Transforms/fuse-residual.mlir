// RUN: k3-opt %s --k3-fuse-residual --remarks-filter=k3-fuse-residual --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// REMARK: [Passed] ProductInSlot {{.*}} Function=add_product {{.*}}k3.linear adds to the stream
// CHECK-LABEL: func.func @add_product
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xf32>, %[[W:.*]]: tensor<8x4xbf16>, %[[SLOT:.*]]: index, %[[S:.*]]: tensor<9x?x8xf32>, %[[T:.*]]: index)
func.func @add_product(%x: tensor<?x4xf32>, %w: tensor<8x4xbf16>, %slot: index, %stream: tensor<9x?x8xf32>, %t: index) -> tensor<9x?x8xf32> {
  // CHECK-NEXT: %[[P:.*]] = tensor.extract_slice %[[S]][%[[SLOT]], 0, 0] [1, %[[T]], 8] [1, 1, 1] : tensor<9x?x8xf32> to tensor<?x8xf32>
  // CHECK-NEXT: %[[R:.*]] = k3.linear ins(%[[X]], %[[W]] : {{.*}}) outs(%[[P]] : tensor<?x8xf32>) {accumulate}
  // CHECK-NEXT: %[[N:.*]] = tensor.insert_slice %[[R]] into %[[S]][%[[SLOT]], 0, 0] [1, %[[T]], 8] [1, 1, 1]
  // CHECK-NEXT: return %[[N]]
  %e = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = k3.attn_res.accumulate ins(%0, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>) -> tensor<9x?x8xf32>
  return %1 : tensor<9x?x8xf32>
}

// After a snapshot the slot is overwritten: what it holds is not read.
// REMARK: [Passed] ProductInSlot {{.*}} Function=write_product {{.*}}k3.linear writes into the stream
// CHECK-LABEL: func.func @write_product
func.func @write_product(%x: tensor<?x4xf32>, %w: tensor<8x4xbf16>, %slot: index, %stream: tensor<9x?x8xf32>, %t: index) -> tensor<9x?x8xf32> {
  // CHECK: k3.linear
  // CHECK-NOT: accumulate
  // CHECK: tensor.insert_slice
  %e = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = k3.attn_res.accumulate ins(%0, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>) {init} -> tensor<9x?x8xf32>
  return %1 : tensor<9x?x8xf32>
}

// The embedding is written in place; a gather cannot add, though.
// REMARK: [Passed] ProductInSlot {{.*}} Function=gather {{.*}}k3.gather_rows writes into the stream
// REMARK: [Missed] ProductInSlot {{.*}} Function=gather
// CHECK-LABEL: func.func @gather
func.func @gather(%ids: tensor<?xi32>, %table: tensor<32x8xbf16>, %stream: tensor<1x?x8xf32>, %t: index) -> tensor<1x?x8xf32> {
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%t) : tensor<?x8xf32>
  %f = tensor.empty(%t) : tensor<?x8xf32>
  // CHECK: %[[P:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0]
  // CHECK: k3.gather_rows {{.*}} outs(%[[P]]
  // CHECK: k3.gather_rows
  // CHECK: k3.attn_res.accumulate
  %0 = k3.gather_rows ins(%ids, %table : tensor<?xi32>, tensor<32x8xbf16>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = k3.attn_res.accumulate ins(%0, %c0 : tensor<?x8xf32>, index) outs(%stream : tensor<1x?x8xf32>) {init} -> tensor<1x?x8xf32>
  %2 = k3.gather_rows ins(%ids, %table : tensor<?xi32>, tensor<32x8xbf16>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %3 = k3.attn_res.accumulate ins(%2, %c0 : tensor<?x8xf32>, index) outs(%1 : tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  return %3 : tensor<1x?x8xf32>
}

// Both parts of a MoE sublayer add to the stream; only the first overwrites after a snapshot.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: %[[S:[^:]*]]: tensor<9x?x8xf32>
func.func @sum(%stream: tensor<9x?x8xf32>, %x: tensor<?x4xf32>, %w: tensor<8x4xbf16>, %y: tensor<?x2x8xf32>, %p: tensor<?x2xf32>, %slot: index, %t: index) -> tensor<9x?x8xf32> {
  // CHECK: %[[P1:.*]] = tensor.extract_slice %[[S]]
  // CHECK: %[[R1:.*]] = k3.linear {{.*}} outs(%[[P1]]
  // CHECK-NOT: accumulate
  // CHECK: %[[S1:.*]] = tensor.insert_slice %[[R1]] into %[[S]]
  // CHECK: %[[P2:.*]] = tensor.extract_slice %[[S1]]
  // CHECK: %[[R2:.*]] = k3.latent_moe.combine {{.*}} outs(%[[P2]] : tensor<?x8xf32>) {accumulate}
  // CHECK: %[[S2:.*]] = tensor.insert_slice %[[R2]] into %[[S1]]
  // CHECK: return %[[S2]]
  %e = tensor.empty(%t) : tensor<?x8xf32>
  %f = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = k3.latent_moe.combine ins(%y, %p : tensor<?x2x8xf32>, tensor<?x2xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = arith.addf %0, %1 : tensor<?x8xf32>
  %3 = k3.attn_res.accumulate ins(%2, %slot : tensor<?x8xf32>, index) outs(%stream : tensor<9x?x8xf32>) {init} -> tensor<9x?x8xf32>
  return %3 : tensor<9x?x8xf32>
}

// A sum that goes nowhere near the stream.
// REMARK: [Passed] ProductInSum {{.*}} Function=product_of_sum {{.*}}k3.linear adds to the other operand
// CHECK-LABEL: func.func @product_of_sum
func.func @product_of_sum(%x: tensor<?x4xf32>, %w: tensor<8x4xbf16>, %t: index) -> tensor<?x8xf32> {
  // CHECK: %[[A:.*]] = k3.linear
  // CHECK: %[[B:.*]] = k3.linear {{.*}} outs(%[[A]] : tensor<?x8xf32>) {accumulate}
  // CHECK: return %[[B]]
  %e = tensor.empty(%t) : tensor<?x8xf32>
  %f = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = arith.addf %0, %1 : tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// The other operand is read elsewhere too: it must not be overwritten. A product that is read twice stays as well.
// REMARK: [Missed] ProductInSum {{.*}} Function=shared_operands
// CHECK-LABEL: func.func @shared_operands
func.func @shared_operands(%x: tensor<?x4xf32>, %w: tensor<8x4xbf16>, %t: index) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  // CHECK: k3.linear
  // CHECK-NOT: accumulate
  // CHECK: arith.addf
  %e = tensor.empty(%t) : tensor<?x8xf32>
  %f = tensor.empty(%t) : tensor<?x8xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = k3.linear ins(%x, %w : tensor<?x4xf32>, tensor<8x4xbf16>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = arith.addf %0, %1 : tensor<?x8xf32>
  return %0, %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
