// RUN: k3-opt %s --verify-roundtrip | FileCheck %s
// RUN: k3-opt %s -o %t.mlir && k3-opt %s --canonicalize --cse --symbol-dce -o %t.simple.mlir && cmp %t.mlir %t.simple.mlir

// CHECK: k3.exec.executable @cpu target(<arch = "x86-64", cpu = "znver4", features = "+avx512f">) elf(dense<[127, 69, 76, 70]> : tensor<4xi8>)
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "znver4", features = "+avx512f">) elf(dense<[127, 69, 76, 70]> : tensor<4xi8>)
// CHECK: k3.exec.kernel @norm in @cpu[0] from "k3.rms_norm" {scratch_bytes = 64 : i64}
k3.exec.kernel @norm in @cpu[0] from "k3.rms_norm" {scratch_bytes = 64}
// CHECK: k3.exec.kernel @mix in @cpu[1] from "k3.attn_res.mix"
k3.exec.kernel @mix in @cpu[1] from "k3.attn_res.mix"

// CHECK-LABEL: k3.exec.program @prefill phase(<prefill>) symbols ["T", "N"] maxima [512, 16] attributes {chunk_rows = 16 : i64}
k3.exec.program @prefill phase(<prefill>) symbols ["T", "N"] maxima [512, 16] attributes {chunk_rows = 16} {
  // Symbols are sorted, factors and constants folded.
  // CHECK: k3.exec.buffer "stream" <persistent> f32 [#k3.term<4>, #k3.term<T>, #k3.term<320>] {arena_bytes = 2621440 : i64, arena_offset = 0 : i64}
  k3.exec.buffer "stream" <persistent> f32 [#k3.term<4>, #k3.term<T>, #k3.term<320>] {arena_offset = 0, arena_bytes = 2621440}
  // CHECK: k3.exec.buffer "cu" <input> i32 [#k3.term<N + 1>]
  k3.exec.buffer "cu" <input> i32 [#k3.term<N + 1>]
  // CHECK: k3.exec.buffer "odd" <transient> bf16 [#k3.term<N * T * 6 + 3 ceildiv 16>, #k3.term<2>, #k3.term<0>]
  k3.exec.buffer "odd" <transient> bf16 [#k3.term<2 * T * N * 3 + 3 ceildiv 16>, #k3.term<3 + 2 ceildiv 3>, #k3.term<0 * T>]
  // CHECK: k3.exec.prologue weights [] {
  k3.exec.prologue weights [] {
  }
  // CHECK: k3.exec.layer_kind "kda_moe" weights [#k3.weight_slot<"input_layernorm.weight", tensor<320xbf16>>, #k3.weight_slot<"experts.w1", tensor<24x96x80xi8>, experts>] states [#k3.state_slot<"kda", tensor<?x4x64x64xf32>>] {
  k3.exec.layer_kind "kda_moe" weights [#k3.weight_slot<"input_layernorm.weight", tensor<320xbf16>>, #k3.weight_slot<"experts.w1", tensor<24x96x80xi8>, experts>] states [#k3.state_slot<"kda", tensor<?x4x64x64xf32>>] {
    // CHECK-NEXT: k3.exec.group {
    k3.exec.group {
      // CHECK-NEXT: k3.exec.dispatch @mix grid [#k3.term<T ceildiv 16>] bindings [#k3.binding<buffer "stream">, #k3.binding<layer_weight "input_layernorm.weight">, #k3.binding<buffer "odd", writes>] scalars [#k3.term<T>, #k3.layer_scalar<"sources">] label "mix"
      k3.exec.dispatch @mix grid [#k3.term<T ceildiv 16>] bindings [#k3.binding<buffer "stream">, #k3.binding<layer_weight "input_layernorm.weight">, #k3.binding<buffer "odd", writes>] scalars [#k3.term<T>, #k3.layer_scalar<"sources">] label "mix"
      // CHECK-NEXT: k3.exec.dispatch @norm grid [] bindings [#k3.binding<buffer "stream">, #k3.binding<layer_state "kda", writes>]
      k3.exec.dispatch @norm grid [] bindings [#k3.binding<buffer "stream">, #k3.binding<layer_state "kda", writes>] scalars [] label "norm"
    }
  }
  // CHECK: k3.exec.epilogue weights [#k3.weight_slot<"norm.weight", tensor<320xbf16>>] {
  k3.exec.epilogue weights [#k3.weight_slot<"norm.weight", tensor<320xbf16>>] {
  }
}
