// RUN: k3-opt %s --k3-verify-stage=stage=plan --split-input-file --verify-diagnostics

// expected-error @+1 {{expected arena_bytes}}
k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @decode phase(<decode>) symbols ["T"] maxima [16] attributes {chunk_rows = 0, arena_bytes = 64} {
  // expected-error @+1 {{expected a place in the arena}}
  k3.exec.buffer "x" <persistent> f32 [#k3.term<T>]
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}
