// RUN: k3-opt %s --k3-lower-to-exec="max-tokens=64 max-sequences=4" | FileCheck %s
// RUN: k3-opt %s --k3-lower-to-exec="max-tokens=64 max-sequences=4" --verify-roundtrip -o /dev/null

module attributes {k3.layers = [{kind = "a", sources = 1 : i64, slot = 0 : i64, mlp_sources = 1 : i64}]} {

// CHECK-NOT: func.func @decode
// CHECK: k3.exec.program @decode phase(<decode>) symbols ["T", "N", "C", "R", "S", "P", "M"] maxima [4, 4, 0, 4, 0, 0, 0] attributes {chunk_rows = 0 : i64}
// CHECK-NEXT: k3.exec.buffer "tokens" <input> i32 [#k3.term<T>]
// CHECK-NEXT: k3.exec.buffer "stream" <persistent> f32 [#k3.term<1>, #k3.term<T>, #k3.term<32>]
// CHECK-NEXT: k3.exec.buffer "slots" <input> i32 [#k3.term<N>]
// CHECK-NEXT: k3.exec.buffer "cu" <input> i32 [#k3.term<N + 1>]
// CHECK-NEXT: k3.exec.buffer "a.q" <transient> f32 [#k3.term<T>, #k3.term<32>]
// CHECK-NEXT: k3.exec.buffer "a.conv" <transient> f32 [#k3.term<T>, #k3.term<32>]
// CHECK-NEXT: k3.exec.buffer "a.g" <transient> f32 [#k3.term<T>, #k3.term<32>]
// CHECK-NEXT: k3.exec.buffer "a.sigmoid_gate" <transient> f32 [#k3.term<T>, #k3.term<32>]
// CHECK-NEXT: k3.exec.buffer "logits" <output> f32 [#k3.term<T>, #k3.term<100>]

// CHECK: k3.exec.prologue weights [#k3.weight_slot<"embed.weight", tensor<100x32xbf16>>]
// CHECK-NEXT: k3.exec.group
// CHECK-NEXT: k3.exec.dispatch @embed grid [#k3.term<T>] bindings [#k3.binding<buffer "tokens">, #k3.binding<weight "embed.weight">, #k3.binding<buffer "stream", writes>] scalars [#k3.term<T>, #k3.term<T>] label "gather_rows embed.weight"
func.func @decode_embed(%tokens: tensor<?xi32> {k3.input = "tokens", k3.dims = ["T"]}, %w: tensor<100x32xbf16> {k3.weight = "embed.weight"},
                        %stream: tensor<1x?x32xf32> {k3.buffer = "stream", k3.dims = ["T"]}) -> tensor<1x?x32xf32> attributes {k3.phase = #k3.phase<decode>} {
  %0 = call @embed(%tokens, %w, %stream) : (tensor<?xi32>, tensor<100x32xbf16>, tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  return %0 : tensor<1x?x32xf32>
}

// Both products only read the stream: one group. The gate waits for the convolution, the last product for the gate; it
// also waits for everybody who reads the stream before it.
// CHECK: k3.exec.layer_kind "a" weights [#k3.weight_slot<"q.weight", tensor<32x32xbf16>>, #k3.weight_slot<"g.weight", tensor<32x32xbf16>>, #k3.weight_slot<"conv.weight", tensor<32x4xf32>>] states [#k3.state_slot<"conv_q", tensor<?x3x32xf32>>]
// CHECK-NEXT: k3.exec.group
// CHECK-NEXT: k3.exec.dispatch @linear grid [#k3.term<T ceildiv 16>, #k3.term<4>] bindings [#k3.binding<buffer "stream">, #k3.binding<layer_weight "q.weight">, #k3.binding<buffer "a.q", writes>] scalars [#k3.term<T>, #k3.term<T>] label "linear q.weight"
// CHECK-NEXT: k3.exec.dispatch @linear grid {{.*}} bindings [#k3.binding<buffer "stream">, #k3.binding<layer_weight "g.weight">, #k3.binding<buffer "a.g", writes>]
// CHECK-NEXT: }
// CHECK-NEXT: k3.exec.group
// CHECK-NEXT: k3.exec.dispatch @conv grid [#k3.term<2>] bindings [#k3.binding<buffer "a.q">, #k3.binding<layer_weight "conv.weight">, #k3.binding<buffer "cu">, #k3.binding<buffer "slots">, #k3.binding<buffer "a.conv", writes>, #k3.binding<layer_state "conv_q", writes>] scalars [#k3.term<T>, #k3.term<N + 1>, #k3.term<N>, #k3.term<T>, #k3.term<S>]
// CHECK-NEXT: }
// CHECK-NEXT: k3.exec.group
// CHECK-NEXT: k3.exec.dispatch @gate grid [#k3.term<1>, #k3.term<1>]
// CHECK-NEXT: }
// CHECK-NEXT: k3.exec.group
// CHECK-NEXT: k3.exec.dispatch @into_slot grid {{.*}} bindings [#k3.binding<buffer "a.sigmoid_gate">, #k3.binding<layer_weight "q.weight">, #k3.binding<buffer "stream", writes>] scalars [#k3.term<T>, #k3.term<T>, #k3.layer_scalar<"slot">, #k3.term<7>, #k3.term<T * 2 ceildiv 3>]
func.func @decode_layer_a(%stream: tensor<1x?x32xf32> {k3.buffer = "stream", k3.dims = ["T"]}, %state: tensor<?x3x32xf32> {k3.state = "conv_q", k3.dims = ["S"]},
    %slots: tensor<?xi32> {k3.input = "slots", k3.dims = ["N"]}, %cu: tensor<?xi32> {k3.input = "cu", k3.dims = ["N+1"]},
    %slot: index {k3.scalar = "slot"}, %q: tensor<32x32xbf16> {k3.weight = "q.weight"}, %g: tensor<32x32xbf16> {k3.weight = "g.weight"},
    %conv: tensor<32x4xf32> {k3.weight = "conv.weight"}, %unused: tensor<32xf32> {k3.weight = "unused.weight"}) -> (tensor<1x?x32xf32>, tensor<?x3x32xf32>)
    attributes {k3.phase = #k3.phase<decode>} {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c7 = arith.constant 7 : index
  %t = tensor.dim %stream, %c1 : tensor<1x?x32xf32>
  %e = tensor.empty(%t) : tensor<?x32xf32>
  %0 = call @linear(%stream, %q, %e) : (tensor<1x?x32xf32>, tensor<32x32xbf16>, tensor<?x32xf32>) -> tensor<?x32xf32>
  %1:2 = call @conv(%0, %conv, %cu, %slots, %e, %state) : (tensor<?x32xf32>, tensor<32x4xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x32xf32>, tensor<?x3x32xf32>) -> (tensor<?x32xf32>, tensor<?x3x32xf32>)
  %2 = call @linear(%stream, %g, %e) : (tensor<1x?x32xf32>, tensor<32x32xbf16>, tensor<?x32xf32>) -> tensor<?x32xf32>
  %3 = call @gate(%1#0, %2, %e) : (tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x32xf32>
  %t2 = arith.muli %t, %c2 : index
  %t3 = arith.ceildivui %t2, %c3 : index
  %4 = call @into_slot(%3, %q, %slot, %c7, %t3, %stream) : (tensor<?x32xf32>, tensor<32x32xbf16>, index, index, index, tensor<1x?x32xf32>) -> tensor<1x?x32xf32>
  return %4, %1#1 : tensor<1x?x32xf32>, tensor<?x3x32xf32>
}

// CHECK: k3.exec.epilogue weights [#k3.weight_slot<"head.weight", tensor<100x32xbf16>>]
// CHECK-NEXT: k3.exec.group
// CHECK-NEXT: k3.exec.dispatch @head grid [#k3.term<T ceildiv 8>, #k3.term<10>]
func.func @decode_head(%stream: tensor<1x?x32xf32> {k3.buffer = "stream", k3.dims = ["T"]}, %w: tensor<100x32xbf16> {k3.weight = "head.weight"},
                       %logits: tensor<?x100xf32> {k3.output = "logits", k3.dims = ["T"]}) -> tensor<?x100xf32> attributes {k3.phase = #k3.phase<decode>} {
  %0 = call @head(%stream, %w, %logits) : (tensor<1x?x32xf32>, tensor<100x32xbf16>, tensor<?x100xf32>) -> tensor<?x100xf32>
  return %0 : tensor<?x100xf32>
}

func.func private @embed(%ids: tensor<?xi32>, %table: tensor<100x32xbf16>, %stream: tensor<1x?x32xf32>) -> tensor<1x?x32xf32> attributes {k3.kernel, k3.source_op = "k3.gather_rows"} {
  %c1 = arith.constant 1 : index
  %t = tensor.dim %stream, %c1 : tensor<1x?x32xf32>
  %slice = tensor.extract_slice %stream[0, 0, 0] [1, %t, 32] [1, 1, 1] : tensor<1x?x32xf32> to tensor<?x32xf32>
  %0 = k3.gather_rows ins(%ids, %table : tensor<?xi32>, tensor<100x32xbf16>) outs(%slice : tensor<?x32xf32>) {kernel_config = #k3.kernel_config<tiles = [1], strategy = "s">} -> tensor<?x32xf32>
  %1 = tensor.insert_slice %0 into %stream[0, 0, 0] [1, %t, 32] [1, 1, 1] : tensor<?x32xf32> into tensor<1x?x32xf32>
  return %1 : tensor<1x?x32xf32>
}
func.func private @linear(%x: tensor<1x?x32xf32>, %w: tensor<32x32xbf16>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x?x32xf32> into tensor<?x32xf32>
  %0 = k3.linear ins(%flat, %w : tensor<?x32xf32>, tensor<32x32xbf16>) outs(%y : tensor<?x32xf32>) {kernel_config = #k3.kernel_config<tiles = [16, 8], strategy = "s">} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
func.func private @conv(%x: tensor<?x32xf32>, %w: tensor<32x4xf32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %y: tensor<?x32xf32>, %state: tensor<?x3x32xf32>) -> (tensor<?x32xf32>, tensor<?x3x32xf32>) attributes {k3.kernel, k3.source_op = "k3.kda.short_conv"} {
  %0:2 = k3.kda.short_conv ins(%x, %w, %cu, %slots : tensor<?x32xf32>, tensor<32x4xf32>, tensor<?xi32>, tensor<?xi32>)
      outs(%y, %state : tensor<?x32xf32>, tensor<?x3x32xf32>) {silu = true, kernel_config = #k3.kernel_config<tiles = [16], strategy = "s">} -> tensor<?x32xf32>, tensor<?x3x32xf32>
  return %0#0, %0#1 : tensor<?x32xf32>, tensor<?x3x32xf32>
}
func.func private @gate(%x: tensor<?x32xf32>, %g: tensor<?x32xf32>, %y: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {k3.kernel, k3.source_op = "k3.sigmoid_gate"} {
  %0 = k3.sigmoid_gate ins(%x, %g : tensor<?x32xf32>, tensor<?x32xf32>) outs(%y : tensor<?x32xf32>) {kernel_config = #k3.kernel_config<tiles = [0, 0], strategy = "s">} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
func.func private @into_slot(%x: tensor<?x32xf32>, %w: tensor<32x32xbf16>, %slot: index, %a: index, %b: index, %stream: tensor<1x?x32xf32>) -> tensor<1x?x32xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %c1 = arith.constant 1 : index
  %t = tensor.dim %stream, %c1 : tensor<1x?x32xf32>
  %slice = tensor.extract_slice %stream[%slot, 0, 0] [1, %t, 32] [1, 1, 1] : tensor<1x?x32xf32> to tensor<?x32xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x32xf32>, tensor<32x32xbf16>) outs(%slice : tensor<?x32xf32>) {accumulate, kernel_config = #k3.kernel_config<tiles = [16, 8], strategy = "s">} -> tensor<?x32xf32>
  %1 = tensor.insert_slice %0 into %stream[%slot, 0, 0] [1, %t, 32] [1, 1, 1] : tensor<?x32xf32> into tensor<1x?x32xf32>
  return %1 : tensor<1x?x32xf32>
}
func.func private @head(%x: tensor<1x?x32xf32>, %w: tensor<100x32xbf16>, %y: tensor<?x100xf32>) -> tensor<?x100xf32> attributes {k3.kernel, k3.source_op = "k3.linear"} {
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x?x32xf32> into tensor<?x32xf32>
  %0 = k3.linear ins(%flat, %w : tensor<?x32xf32>, tensor<100x32xbf16>) outs(%y : tensor<?x100xf32>) {kernel_config = #k3.kernel_config<tiles = [8, 10], strategy = "s">} -> tensor<?x100xf32>
  return %0 : tensor<?x100xf32>
}
}
