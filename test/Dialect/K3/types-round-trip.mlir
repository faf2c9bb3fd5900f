// RUN: k3-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func private @states
// CHECK-SAME: !k3.kda_state<96 x 128 x 128, f32, row = value>, !k3.kda_state<2 x 4 x 6, bf16, row = key>
// CHECK-SAME: !k3.conv_state<12288 x 3, bf16>, !k3.kv_cache<512 + 64, bf16, page = 64>, !k3.seq
func.func private @states(!k3.kda_state<96 x 128 x 128, f32, row = value>, !k3.kda_state<2 x 4 x 6, bf16, row = key>,
                          !k3.conv_state<12288 x 3, bf16>, !k3.kv_cache<512 + 64, bf16, page = 64>, !k3.seq)

// CHECK-LABEL: func.func private @attributes
// CHECK-SAME: #k3.kernel_config<tiles = [16, 0], strategy = "vector">
// CHECK-SAME: #k3.target<arch = "x86-64", cpu = "znver4", features = "+avx512f">
func.func private @attributes() attributes {
  config = #k3.kernel_config<tiles = [16, 0], strategy = "vector">,
  target = #k3.target<arch = "x86-64", cpu = "znver4", features = "+avx512f">}
