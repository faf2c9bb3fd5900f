// Tokens are chosen where logits are made.
// RUN: k3-opt %s --pass-pipeline="builtin.module(func.func(k3-add-sampling{ban-sets=4}))" | FileCheck %s
// RUN: not k3-opt %s --pass-pipeline="builtin.module(func.func(k3-add-sampling{ban-sets=0}))" 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE

// NONE: expected at least 1 set of banned tokens, got 0

// The inputs stand with the others, the output is last.
// CHECK-LABEL: func.func @decode_head(
// CHECK-SAME: %[[ROWS:[a-z0-9]+]]: tensor<?xi32> {k3.dims = ["R"], k3.input = "logit_rows"},
// CHECK-SAME: %[[SAMPLING:[a-z0-9]+]]: tensor<?x8xi32> {k3.dims = ["R"], k3.input = "sampling"},
// CHECK-SAME: %[[BANNED:[a-z0-9]+]]: tensor<4x3xi32> {k3.input = "banned"},
// CHECK-SAME: %[[LOGITS:[a-z0-9]+]]: tensor<?x70xf32> {k3.dims = ["R"], k3.output = "logits"},
// CHECK-SAME: %[[IDS:[a-z0-9]+]]: tensor<?xi32> {k3.dims = ["R"], k3.output = "ids"}) -> (tensor<?x70xf32>, tensor<?xi32>)
// CHECK: %[[MADE:.*]] = k3.linear {{.*}} outs(%[[LOGITS]] :
// CHECK-NEXT: %[[CHOSEN:.*]] = k3.sample ins(%[[MADE]], %[[SAMPLING]], %[[BANNED]] : {{.*}}) outs(%[[IDS]] :
// CHECK-NEXT: return %[[MADE]], %[[CHOSEN]]
func.func @decode_head(%x: tensor<?x8xf32> {k3.buffer = "stream", k3.dims = ["R"]},
                       %rows: tensor<?xi32> {k3.dims = ["R"], k3.input = "logit_rows"},
                       %weight: tensor<70x8xbf16> {k3.weight = "lm_head.weight"},
                       %logits: tensor<?x70xf32> {k3.dims = ["R"], k3.output = "logits"}) -> tensor<?x70xf32>
    attributes {k3.phase = #k3.phase<decode>} {
  %0 = k3.linear ins(%x, %weight : tensor<?x8xf32>, tensor<70x8xbf16>) outs(%logits : tensor<?x70xf32>) -> tensor<?x70xf32>
  return %0 : tensor<?x70xf32>
}

// CHECK-LABEL: func.func @decode_layer_kda(
// CHECK-NOT: k3.sample
// CHECK: return
func.func @decode_layer_kda(%stream: tensor<?x8xf32> {k3.buffer = "stream", k3.dims = ["T"]}) -> tensor<?x8xf32>
    attributes {k3.phase = #k3.phase<decode>} {
  return %stream : tensor<?x8xf32>
}
