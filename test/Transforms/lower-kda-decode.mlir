// RUN: k3-opt %s --k3-lower-kda-decode --remarks-filter=k3-lower-kda-decode --remark-format=emitRemark 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// REMARK: [Passed] RecurrentStep | Category:k3-lower-kda-decode | Function=decode
// CHECK-LABEL: func.func @decode
func.func @decode(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %g: tensor<?x2x4xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<decode>} {
  // CHECK-NEXT: %[[R:.*]]:2 = k3.kda.recurrent_step ins(%arg0, %arg0, %arg1, %arg2, %arg5 : {{.*}}) g(%arg3 : {{.*}}) outs(%arg6, %arg7 : {{.*}}) {delta = true, l2norm = true, scale = 5.000000e-01 : f64}
  // CHECK-NEXT: return %[[R]]#0, %[[R]]#1
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>) g(%g : tensor<?x2x4xf32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true, gate_bound = -5.0 : f64} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// DeltaNet without decay steps as well.
// CHECK-LABEL: func.func @no_decay
func.func @no_decay(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<decode>} {
  // CHECK: k3.kda.recurrent_step
  // CHECK-NOT: g(
  // CHECK: return
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}

// CHECK-LABEL: func.func @prefill
func.func @prefill(%q: tensor<?x2x4xf32>, %v: tensor<?x2x6xf32>, %beta: tensor<?x2xf32>, %cu: tensor<?xi32>,
    %slots: tensor<?xi32>, %o: tensor<?x2x6xf32>, %s: tensor<?x2x6x4xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) attributes {k3.phase = #k3.phase<prefill>} {
  // CHECK: k3.kda.scan
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x6xf32>, tensor<?x2xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>) {scale = 0.5 : f64, l2norm = true, delta = true} -> tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
  return %0#0, %0#1 : tensor<?x2x6xf32>, tensor<?x2x6x4xf32>
}
