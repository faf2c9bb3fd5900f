// RUN: k3-opt %s --k3-materialize-states --split-input-file | FileCheck %s

// Only the sequence inputs that are used stay; the result has the pool's type.
// CHECK-LABEL: func.func @kda_state
// CHECK-SAME: (%[[X:.*]]: tensor<?x2x4xf32>, %[[V:.*]]: tensor<?x2x6xf32>, %[[BETA:.*]]: tensor<?x2xf32>,
// CHECK-SAME: %[[S:.*]]: tensor<?x2x6x4xf32> {k3.dims = ["S"], k3.state = "kda"},
// CHECK-SAME: %[[CU:.*]]: tensor<?xi32> {k3.dims = ["N+1"], k3.input = "cu"}, %[[SLOTS:.*]]: tensor<?xi32> {k3.dims = ["N"], k3.input = "slots"},
// CHECK-SAME: %[[O:.*]]: tensor<?x2x6xf32>) -> tensor<?x2x6x4xf32>
func.func @kda_state(%x: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>,
    %s: !k3.kda_state<2 x 4 x 6, f32, row = value> {k3.state = "kda"}, %seq: !k3.seq, %o: tensor<?x2x6xf32>)
    -> !k3.kda_state<2 x 4 x 6, f32, row = value> {
  %q:4 = builtin.unrealized_conversion_cast %seq : !k3.seq to tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>
  %p = builtin.unrealized_conversion_cast %s : !k3.kda_state<2 x 4 x 6, f32, row = value> to tensor<?x2x6x4xf32>
  // CHECK: %[[R:.*]]:2 = k3.kda.scan ins(%[[X]], %[[X]], %[[V]], %[[BETA]], %[[CU]], %[[SLOTS]] : {{.*}}) outs(%[[O]], %[[S]]
  %0:2 = k3.kda.scan ins(%x, %x, %v, %beta, %q#0, %q#1 : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %p : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  %s1 = builtin.unrealized_conversion_cast %0#1 : tensor<?x2x6x4xf32> to !k3.kda_state<2 x 4 x 6, f32, row = value>
  // CHECK-NOT: unrealized_conversion_cast
  // CHECK: return %[[R]]#1
  return %s1 : !k3.kda_state<2 x 4 x 6, f32, row = value>
}

// -----

// Two ops in a row share a state; a state that nobody touches passes through.
// CHECK-LABEL: func.func @conv_and_cache
// CHECK-SAME: %[[C:[^ :]*]]: tensor<?x3x8xbf16> {k3.dims = ["S"], k3.state = "conv_q"}, %[[KV:[^ :]*]]: tensor<?x64x8xf32> {k3.dims = ["P"], k3.state = "kv"}
// CHECK-SAME: -> (tensor<?x3x8xbf16>, tensor<?x64x8xf32>)
func.func @conv_and_cache(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>, %o: tensor<?x8xf32>, %c: !k3.conv_state<8 x 3, bf16> {k3.state = "conv_q"},
    %kv: !k3.kv_cache<5 + 3, f32, page = 64> {k3.state = "kv"}, %seq: !k3.seq) -> (!k3.conv_state<8 x 3, bf16>, !k3.kv_cache<5 + 3, f32, page = 64>) {
  %q:4 = builtin.unrealized_conversion_cast %seq : !k3.seq to tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>
  %p = builtin.unrealized_conversion_cast %c : !k3.conv_state<8 x 3, bf16> to tensor<?x3x8xbf16>
  // CHECK: %[[A:.*]]:2 = k3.kda.short_conv {{.*}} outs(%{{.*}}, %[[C]]
  %0:2 = k3.kda.short_conv ins(%x, %w, %q#0, %q#1 : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%o, %p : tensor<?x8xf32>, tensor<?x3x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xbf16>
  %c1 = builtin.unrealized_conversion_cast %0#1 : tensor<?x3x8xbf16> to !k3.conv_state<8 x 3, bf16>
  %q2:4 = builtin.unrealized_conversion_cast %seq : !k3.seq to tensor<?xi32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>
  %p2 = builtin.unrealized_conversion_cast %c1 : !k3.conv_state<8 x 3, bf16> to tensor<?x3x8xbf16>
  // CHECK: %[[B:.*]]:2 = k3.kda.short_conv {{.*}} outs(%[[A]]#0, %[[A]]#1
  %1:2 = k3.kda.short_conv ins(%x, %w, %q2#0, %q2#1 : tensor<?x8xf32>, tensor<8x4xf32>, tensor<?xi32>, tensor<?xi32>) outs(%0#0, %p2 : tensor<?x8xf32>, tensor<?x3x8xbf16>) {silu = true} -> tensor<?x8xf32>, tensor<?x3x8xbf16>
  %c2 = builtin.unrealized_conversion_cast %1#1 : tensor<?x3x8xbf16> to !k3.conv_state<8 x 3, bf16>
  // CHECK: return %[[B]]#1, %[[KV]]
  return %c2, %kv : !k3.conv_state<8 x 3, bf16>, !k3.kv_cache<5 + 3, f32, page = 64>
}

// -----

// An output becomes the destination of the op that makes it.
// CHECK-LABEL: func.func @output
// CHECK-SAME: %[[OUT:[^ :]*]]: tensor<?x32xf32> {k3.dims = ["R"], k3.output = "logits"}) -> tensor<?x32xf32> {
func.func @output(%x: tensor<?x8xf32>, %w: tensor<32x8xbf16>, %r: index) -> (tensor<?x32xf32> {k3.output = "logits", k3.dims = ["R"]}) {
  // CHECK-NOT: tensor.empty
  // CHECK: k3.linear {{.*}} outs(%[[OUT]]
  %e = tensor.empty(%r) : tensor<?x32xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x8xf32>, tensor<32x8xbf16>) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
