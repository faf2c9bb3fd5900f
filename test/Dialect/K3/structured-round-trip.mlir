// RUN: k3-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<?x320xf32>, %w: tensor<256x320xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32> {
  // CHECK: k3.linear ins(%{{.*}}, %{{.*}} : tensor<?x320xf32>, tensor<256x320xbf16>) outs(%{{.*}} : tensor<?x256xf32>) {accumulate} -> tensor<?x256xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x320xf32>, tensor<256x320xbf16>) outs(%y : tensor<?x256xf32>) {accumulate} -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// Per-head decay drops the last name of the elastic operand `g`.
// CHECK-LABEL: func.func @scan_per_head
func.func @scan_per_head(%q: tensor<?x4x8xf32>, %v: tensor<?x4x16xf32>, %beta: tensor<?x4xf32>, %cu: tensor<?xi32>,
                         %slots: tensor<?xi32>, %g: tensor<?x4xf32>, %o: tensor<?x4x16xf32>,
                         %s: tensor<?x4x16x8xf32>) -> (tensor<?x4x16xf32>, tensor<?x4x16x8xf32>) {
  // CHECK: k3.kda.scan
  %0:2 = k3.kda.scan ins(%q, %q, %v, %beta, %cu, %slots : tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<?xi32>, tensor<?xi32>)
      g(%g : tensor<?x4xf32>) outs(%o, %s : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>)
      {scale = 0.125 : f64, l2norm = true, delta = true} -> tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
  return %0#0, %0#1 : tensor<?x4x16xf32>, tensor<?x4x16x8xf32>
}

// CHECK-LABEL: func.func @gate_without_a_log
func.func @gate_without_a_log(%z: memref<3x4x8xf32>, %dt: memref<4x8xf32>, %g: memref<3x4x8xf32>) {
  // CHECK: k3.kda.gate ins(%{{.*}}, %{{.*}} : memref<3x4x8xf32>, memref<4x8xf32>) outs(%{{.*}} : memref<3x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.000000e+00 : f64}
  k3.kda.gate ins(%z, %dt : memref<3x4x8xf32>, memref<4x8xf32>) outs(%g : memref<3x4x8xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64}
  return
}

// CHECK-LABEL: func.func private @states
// CHECK-SAME: !k3.kda_state<96 x 128 x 128, f32, row = value>, !k3.conv_state<12288 x 3, bf16>, !k3.kv_cache<512 + 64, bf16, page = 64>, !k3.seq
func.func private @states(!k3.kda_state<96 x 128 x 128, f32, row = value>, !k3.conv_state<12288 x 3, bf16>,
                          !k3.kv_cache<512 + 64, bf16, page = 64>, !k3.seq)
