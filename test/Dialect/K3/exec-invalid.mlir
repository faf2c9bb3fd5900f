// RUN: k3-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected an executable called @cpu}}
k3.exec.kernel @norm in @cpu[0] from "k3.rms_norm"

// -----

// expected-error @+1 {{expected one maximum per symbol, got 1 for 2 symbols}}
k3.exec.program @p phase(<decode>) symbols ["T", "N"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

// expected-error @+1 {{expected one prologue and one epilogue, got 1 and 0}}
k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
  }
}

// -----

k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
  }
  // expected-error @+1 {{is out of order: expected buffers, prologue, layer kinds, epilogue}}
  k3.exec.buffer "x" <transient> f32 [#k3.term<T>]
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  // expected-error @+1 {{expected a symbol of the program, got 'Z'}}
  k3.exec.buffer "x" <transient> f32 [#k3.term<Z>]
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.buffer "x" <transient> f32 [#k3.term<T>]
  // expected-error @+1 {{expected unique names, got 'x' twice}}
  k3.exec.buffer "x" <transient> f32 [#k3.term<T>]
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  // expected-error @+1 {{expected elements of f32, bf16, i8 or i32, got 'f64'}}
  k3.exec.buffer "x" <transient> f64 [#k3.term<T>]
  k3.exec.prologue weights [] {
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.kernel @k in @cpu[0] from "k3.rms_norm"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "znver4", features = "">) elf(dense<0> : tensor<4xi8>)
k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
    k3.exec.group {
      // expected-error @+1 {{expected a buffer of this program, got "x"}}
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "x">] scalars [] label "k"
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.kernel @k in @cpu[0] from "k3.rms_norm"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "znver4", features = "">) elf(dense<0> : tensor<4xi8>)
k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [#k3.weight_slot<"w", tensor<4xf32>>] {
    k3.exec.group {
      // expected-error @+1 {{writes the weight "w"}}
      k3.exec.dispatch @k grid [] bindings [#k3.binding<weight "w", writes>] scalars [] label "k"
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.kernel @k in @cpu[0] from "k3.rms_norm"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "znver4", features = "">) elf(dense<0> : tensor<4xi8>)
k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
    k3.exec.group {
      // expected-error @+1 {{expected scalars to be terms or, in a layer kind, layer scalars, got #k3.layer_scalar<"slot">}}
      k3.exec.dispatch @k grid [] bindings [] scalars [#k3.layer_scalar<"slot">] label "k"
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.kernel @k in @cpu[0] from "k3.rms_norm"
k3.exec.executable @cpu target(<arch = "x86-64", cpu = "znver4", features = "">) elf(dense<0> : tensor<4xi8>)
k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.buffer "x" <transient> f32 [#k3.term<T>]
  k3.exec.prologue weights [] {
    k3.exec.group {
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "x">] scalars [] label "k"
      // expected-error @+1 {{depends on another dispatch of its group through "x"}}
      k3.exec.dispatch @k grid [] bindings [#k3.binding<buffer "x", writes>] scalars [] label "k"
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  k3.exec.prologue weights [] {
    k3.exec.group {
      // expected-error @+1 {{expected a kernel called @k}}
      k3.exec.dispatch @k grid [] bindings [] scalars [] label "k"
    }
  }
  k3.exec.epilogue weights [] {
  }
}

// -----

k3.exec.program @p phase(<decode>) symbols ["T"] maxima [1] attributes {chunk_rows = 0} {
  // expected-error @+1 {{expected a divisor of at least 1, got 0}}
  k3.exec.buffer "x" <transient> f32 [#k3.term<T ceildiv 0>]
}
