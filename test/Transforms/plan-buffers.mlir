// RUN: k3-opt %s --k3-plan-buffers | FileCheck %s
// RUN: k3-opt %s --k3-plan-buffers --k3-plan-buffers=check-only -o /dev/null

k3.exec.kernel @k in @cpu[0] from "k3.linear"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "x86-64-v3", features = "">) elf(dense<0> : tensor<4xi8>)

// The stream comes first and nothing shares its space. a and b are in use in the same group, as are b and c; c takes the
// place of a, whose last reader is one group earlier. d is in another section.
// CHECK: arena_bytes = 3072 : i64
// CHECK: "ids" <input> i32 [#k3.term<T>]{{$}}
// CHECK: "stream" <persistent> f32 {{.*}} {arena_bytes = 1024 : i64, arena_offset = 0 : i64}
// CHECK: "a" <transient> f32 {{.*}} {arena_bytes = 1024 : i64, arena_offset = 1024 : i64}
// CHECK: "b" <transient> bf16 {{.*}} {arena_bytes = 512 : i64, arena_offset = 2048 : i64}
// CHECK: "c" <transient> f32 {{.*}} {arena_bytes = 1024 : i64, arena_offset = 1024 : i64}
// CHECK: "d" <transient> f32 {{.*}} {arena_bytes = 2048 : i64, arena_offset = 1024 : i64}
// CHECK: "e" <transient> i8 {{.*}} {arena_bytes = 64 : i64, arena_offset = 2048 : i64}
// CHECK: "none" <transient> f32 [#k3.term<0>] {arena_bytes = 0 : i64
// CHECK: "logits" <output> f32 [#k3.term<T>]{{$}}
k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0} {
  k3.exec.buffer "ids" <input> i32 [#k3.term<T>]
  k3.exec.buffer "stream" <persistent> f32 [#k3.term<T>, #k3.term<16>]
  k3.exec.buffer "a" <transient> f32 [#k3.term<T>, #k3.term<16>]
  k3.exec.buffer "b" <transient> bf16 [#k3.term<T>, #k3.term<16>]
  k3.exec.buffer "c" <transient> f32 [#k3.term<T>, #k3.term<16>]
  k3.exec.buffer "d" <transient> f32 [#k3.term<T>, #k3.term<32>]
  k3.exec.buffer "e" <transient> i8 [#k3.term<3>]
  k3.exec.buffer "none" <transient> f32 [#k3.term<0>]
  k3.exec.buffer "logits" <output> f32 [#k3.term<T>]
  k3.exec.prologue weights [] {
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "ids">, #k3.binding<buffer "a", writes>] scalars [] label ""
    }
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "a">, #k3.binding<buffer "b", writes>, #k3.binding<buffer "none", writes>] scalars [] label ""
    }
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "b">, #k3.binding<buffer "c", writes>] scalars [] label ""
    }
    k3.exec.group {
      // e must not take the space of b: both are used in this group.
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "c">, #k3.binding<buffer "stream", writes>] scalars [] label ""
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "ids">, #k3.binding<buffer "e", writes>] scalars [] label ""
    }
  }
  k3.exec.layer_kind "x" weights [] states [] {
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "stream">, #k3.binding<buffer "d", writes>] scalars [] label ""
    }
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "d">, #k3.binding<buffer "stream", writes>] scalars [] label ""
    }
  }
  k3.exec.epilogue weights [] {
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "stream">, #k3.binding<buffer "logits", writes>] scalars [] label ""
    }
  }
}
