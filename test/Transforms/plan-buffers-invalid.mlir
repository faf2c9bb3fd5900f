// RUN: k3-opt %s --k3-plan-buffers=check-only --split-input-file --verify-diagnostics

k3.exec.kernel @k in @cpu[0] from "k3.linear"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "x86-64-v3", features = "">) elf(dense<0> : tensor<4xi8>)
// Both are used by the group that writes b, although a is not needed after it.
k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 128} {
  // expected-note @+1 {{at 0 to 64}}
  k3.exec.buffer "a" <transient> f32 [#k3.term<T>] {arena_offset = 0, arena_bytes = 64}
  k3.exec.buffer "b" <transient> f32 [#k3.term<T>] {arena_offset = 0, arena_bytes = 64}
  k3.exec.prologue weights [] {
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "a", writes>] scalars [] label ""
    }
    k3.exec.group {
      // expected-error @+1 {{writes buffer 'b' at 0 to 64 over buffer 'a', which is still needed}}
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "a">, #k3.binding<buffer "b", writes>] scalars [] label ""
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.kernel @k in @cpu[0] from "k3.linear"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "x86-64-v3", features = "">) elf(dense<0> : tensor<4xi8>)
// A buffer that only partly overlaps one that is needed two groups later.
k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [32] attributes {chunk_rows = 0, arena_bytes = 256} {
  // expected-note @+1 {{at 64 to 192}}
  k3.exec.buffer "a" <transient> f32 [#k3.term<T>] {arena_offset = 64, arena_bytes = 128}
  k3.exec.buffer "b" <transient> f32 [#k3.term<T>] {arena_offset = 128, arena_bytes = 128}
  k3.exec.prologue weights [] {
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "a", writes>] scalars [] label ""
    }
    k3.exec.group {
      // expected-error @+1 {{writes buffer 'b' at 128 to 256 over buffer 'a', which is still needed}}
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "b", writes>] scalars [] label ""
    }
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "a">] scalars [] label ""
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.kernel @k in @cpu[0] from "k3.linear"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "x86-64-v3", features = "">) elf(dense<0> : tensor<4xi8>)
k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 64} {
  k3.exec.buffer "a" <transient> f32 [#k3.term<T>] {arena_offset = 0, arena_bytes = 64}
  k3.exec.prologue weights [] {
    k3.exec.group {
      // expected-error @+1 {{reads buffer 'a' before it is written}}
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "a">] scalars [] label ""
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 64} {
  k3.exec.buffer "a" <persistent> f32 [#k3.term<T>] {arena_offset = 0, arena_bytes = 64}
  // expected-error @+1 {{overlaps buffer 'a', which lives as long}}
  k3.exec.buffer "b" <persistent> f32 [#k3.term<T>] {arena_offset = 0, arena_bytes = 64}
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 64} {
  // expected-error @+1 {{expected at least 64 bytes in the arena, got 60}}
  k3.exec.buffer "a" <persistent> f32 [#k3.term<T>] {arena_offset = 0, arena_bytes = 60}
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 128} {
  // expected-error @+1 {{expected a multiple of 64 as offset, got 32}}
  k3.exec.buffer "a" <persistent> f32 [#k3.term<T>] {arena_offset = 32, arena_bytes = 64}
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 64} {
  // expected-error @+1 {{expected to lie inside the arena of 64 bytes, got 64 + 64}}
  k3.exec.buffer "a" <persistent> f32 [#k3.term<T>] {arena_offset = 64, arena_bytes = 64}
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}
