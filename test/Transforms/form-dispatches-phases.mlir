// RUN: k3-opt %s --k3-form-dispatches=separate-phases --k3-dedup-kernels | FileCheck %s
// RUN: k3-opt %s --k3-form-dispatches --k3-dedup-kernels | FileCheck %s --check-prefix=SHARED

// A target that chooses kernels by phase gets one for each.
// CHECK: call @[[PREFILL:rms_norm[a-z0-9_]*]](
// CHECK: call @[[DECODE:rms_norm[a-z0-9_]*]](
// CHECK-DAG: func.func private @[[PREFILL]]({{.*}}k3.phase = #k3.phase<prefill>
// CHECK-DAG: func.func private @[[DECODE]]({{.*}}k3.phase = #k3.phase<decode>
// SHARED: call @[[BOTH:rms_norm[a-z0-9_]*]](
// SHARED: call @[[BOTH]](
// SHARED: func.func private @[[BOTH]]({{.*}}attributes {k3.kernel, k3.source_op = "k3.rms_norm"}
func.func @prefill_embed(%x: tensor<?x8xf32> {k3.buffer = "stream", k3.dims = ["T"]}, %w: tensor<8xf32> {k3.weight = "w"},
                         %y: tensor<?x8xf32> {k3.buffer = "y", k3.dims = ["T"]}) -> tensor<?x8xf32> attributes {k3.phase = #k3.phase<prefill>} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x8xf32>, tensor<8xf32>) outs(%y : tensor<?x8xf32>) {eps = 1.0e-5 : f64} -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
func.func @decode_embed(%x: tensor<?x8xf32> {k3.buffer = "stream", k3.dims = ["T"]}, %w: tensor<8xf32> {k3.weight = "w"},
                        %y: tensor<?x8xf32> {k3.buffer = "y", k3.dims = ["T"]}) -> tensor<?x8xf32> attributes {k3.phase = #k3.phase<decode>} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x8xf32>, tensor<8xf32>) outs(%y : tensor<?x8xf32>) {eps = 1.0e-5 : f64} -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
