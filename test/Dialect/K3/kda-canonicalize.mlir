// RUN: k3-opt %s --canonicalize | FileCheck %s

// Without tokens the state stays as it is.
// CHECK-LABEL: func.func @scan_no_tokens
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<0x4x16xf32>, %[[STATE:[a-z0-9]+]]: tensor<8x4x16x8xf32>
func.func @scan_no_tokens(%q: tensor<0x4x8xf32>, %v: tensor<0x4x16xf32>, %beta: tensor<0x4xf32>, %cu: tensor<3xi32>,
                          %slots: tensor<2xi32>, %out: tensor<0x4x16xf32>, %state: tensor<8x4x16x8xf32>)
    -> (tensor<0x4x16xf32>, tensor<8x4x16x8xf32>) {
  // CHECK-NEXT: return %[[OUT]], %[[STATE]]
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots
      : tensor<0x4x8xf32>, tensor<0x4x8xf32>, tensor<0x4x16xf32>, tensor<0x4xf32>, tensor<3xi32>, tensor<2xi32>)
      outs(%out, %state : tensor<0x4x16xf32>, tensor<8x4x16x8xf32>) {scale = 0.25 : f64, l2norm = true, delta = true}
      -> tensor<0x4x16xf32>, tensor<8x4x16x8xf32>
  return %0#0, %0#1 : tensor<0x4x16xf32>, tensor<8x4x16x8xf32>
}

// Tokens of no sequence do not exist, but their rows of the output do: not folded.
// CHECK-LABEL: func.func @scan_no_sequences
func.func @scan_no_sequences(%q: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>, %cu: tensor<1xi32>,
                             %slots: tensor<0xi32>, %out: tensor<?x4x16xf32>, %state: tensor<8x4x16x8xf32>)
    -> (tensor<?x4x16xf32>, tensor<8x4x16x8xf32>) {
  // CHECK: k3.kda.scan
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots
      : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<1xi32>, tensor<0xi32>)
      outs(%out, %state : tensor<?x4x16xf32>, tensor<8x4x16x8xf32>) {scale = 0.25 : f64, l2norm = true, delta = true}
      -> tensor<?x4x16xf32>, tensor<8x4x16x8xf32>
  return %0#0, %0#1 : tensor<?x4x16xf32>, tensor<8x4x16x8xf32>
}

// CHECK-LABEL: func.func @step_no_sequences
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: tensor<0x4x16xf32>, %[[STATE:[a-z0-9]+]]: tensor<8x4x16x8xf32>
func.func @step_no_sequences(%q: tensor<0x4x8xf32>, %v: tensor<0x4x16xf32>, %beta: tensor<0x4xf32>,
                             %slots: tensor<0xi32>, %out: tensor<0x4x16xf32>, %state: tensor<8x4x16x8xf32>)
    -> (tensor<0x4x16xf32>, tensor<8x4x16x8xf32>) {
  // CHECK-NEXT: return %[[OUT]], %[[STATE]]
  %0:2 = k3.kda.recurrent_step ins(%q, %q, %v, %beta, %slots
      : tensor<0x4x8xf32>, tensor<0x4x8xf32>, tensor<0x4x16xf32>, tensor<0x4xf32>, tensor<0xi32>)
      outs(%out, %state : tensor<0x4x16xf32>, tensor<8x4x16x8xf32>) {scale = 0.25 : f64, l2norm = true, delta = true}
      -> tensor<0x4x16xf32>, tensor<8x4x16x8xf32>
  return %0#0, %0#1 : tensor<0x4x16xf32>, tensor<8x4x16x8xf32>
}
