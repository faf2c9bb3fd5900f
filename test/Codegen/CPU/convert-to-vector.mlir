// RUN: k3-opt %s --pass-pipeline='builtin.module(builtin.module(func.func(k3-convert-to-vector)))' --split-input-file --verify-diagnostics | FileCheck %s

// The width of a vector is the target's: 16, 8 or 4 floats. Rows of bf16 weights are widened in registers.
module {
  module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
    // CHECK-LABEL: func.func private @avx512
    // CHECK: vector.load %{{.*}} : memref<8x64xbf16>, vector<16xbf16>
    // CHECK: math.fma %{{.*}} : vector<16xf32>
    // CHECK-NOT: k3.linear
    func.func private @avx512(%x: memref<?x64xf32>, %w: memref<8x64xbf16>, %y: memref<?x8xf32>) attributes {k3.kernel} {
      k3.linear ins(%x, %w : memref<?x64xf32>, memref<8x64xbf16>) outs(%y : memref<?x8xf32>)
      return
    }
  }
  module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
    // CHECK-LABEL: func.func private @avx2
    // CHECK-NOT: vector<16xf32>
    // CHECK: vector.load %{{.*}} : memref<8x64xbf16>, vector<8xbf16>
    // CHECK: math.fma %{{.*}} : vector<8xf32>
    func.func private @avx2(%x: memref<?x64xf32>, %w: memref<8x64xbf16>, %y: memref<?x8xf32>) attributes {k3.kernel} {
      k3.linear ins(%x, %w : memref<?x64xf32>, memref<8x64xbf16>) outs(%y : memref<?x8xf32>)
      return
    }
    // Not a kernel.
    // CHECK-LABEL: func.func private @other
    // CHECK-NEXT: k3.linear
    func.func private @other(%x: memref<?x64xf32>, %w: memref<8x64xbf16>, %y: memref<?x8xf32>) {
      k3.linear ins(%x, %w : memref<?x64xf32>, memref<8x64xbf16>) outs(%y : memref<?x8xf32>)
      return
    }
  }
}

// -----

// A convolution: the weights of 16 channels are loaded at once, of which each tap picks its own; the inputs of a
// sequence go through registers, the state is read and written once, and what a later sequence needs is asked for, its
// outputs for writing.
module {
  module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
    // CHECK-LABEL: func.func private @short_conv
    // CHECK: memref.collapse_shape
    // CHECK: vector.load %{{.*}} : memref<128xbf16>, vector<64xbf16>
    // CHECK: vector.shuffle %{{.*}} [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60] : vector<64xbf16>
    // CHECK: vector.store %{{.*}} : memref<4x32xf32
    // CHECK: scf.if
    // CHECK: memref.prefetch %{{.*}}, read, locality<2>, data : memref<?x3x32xf32>
    // CHECK: memref.prefetch %{{.*}}, read, locality<3>, data : memref<?x32xf32>
    // CHECK: memref.prefetch %{{.*}}, write, locality<3>, data : memref<?x32xf32>
    // CHECK-COUNT-3: vector.load %{{.*}} : memref<?x3x32xf32>, vector<16xf32>
    // CHECK: scf.for {{.*}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>)
    // CHECK-COUNT-3: math.fma %{{.*}} : vector<16xf32>
    // CHECK: vector.store %{{.*}} : memref<?x32xf32>, vector<16xf32>
    // CHECK-COUNT-3: vector.store %{{.*}} : memref<?x3x32xf32>, vector<16xf32>
    // CHECK-NOT: k3.kda
    func.func private @short_conv(%x: memref<?x32xf32>, %w: memref<32x4xbf16>, %cu: memref<?xi32>, %slots: memref<?xi32>, %y: memref<?x32xf32>, %state: memref<?x3x32xf32>) attributes {k3.kernel} {
      k3.kda.short_conv ins(%x, %w, %cu, %slots : memref<?x32xf32>, memref<32x4xbf16>, memref<?xi32>, memref<?xi32>) outs(%y, %state : memref<?x32xf32>, memref<?x3x32xf32>) {silu = false}
      return
    }
  }
}

// -----

// MLA's products with latents: queries are spread over lanes of latents; rows of latents are multiplied and summed.
module {
  module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
    // CHECK-LABEL: func.func private @absorb
    // CHECK: vector.load %{{.*}} : memref<2x24x64xbf16>, vector<16xbf16>
    // CHECK: math.fma %{{.*}} : vector<16xf32>
    // CHECK-NOT: k3.mla
    func.func private @absorb(%q: memref<?x2x24xf32>, %w: memref<2x24x64xbf16>, %y: memref<?x2x72xf32>) attributes {k3.kernel} {
      k3.mla.absorb ins(%q, %w : memref<?x2x24xf32>, memref<2x24x64xbf16>) outs(%y : memref<?x2x72xf32>) {nope = 16 : i64}
      return
    }
    // CHECK-LABEL: func.func private @expand
    // CHECK: vector.load %{{.*}} : memref<2x24x64xbf16>, vector<16xbf16>
    // CHECK: math.fma %{{.*}} : vector<16xf32>
    // CHECK-NOT: k3.mla
    func.func private @expand(%x: memref<?x2x64xf32>, %w: memref<2x24x64xbf16>, %y: memref<?x2x8xf32>) attributes {k3.kernel} {
      k3.mla.expand ins(%x, %w : memref<?x2x64xf32>, memref<2x24x64xbf16>) outs(%y : memref<?x2x8xf32>) {nope = 16 : i64}
      return
    }
  }
}

// -----

module {
  module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v3", features = "">} {
    func.func private @norm(%x: memref<?x64xf32>, %w: memref<64xf32>, %y: memref<?x64xf32>) attributes {k3.kernel} {
      // expected-error @+1 {{no emitter for this op; its strategy must be 'generic'}}
      k3.rms_norm ins(%x, %w : memref<?x64xf32>, memref<64xf32>) outs(%y : memref<?x64xf32>) {eps = 1.0e-5 : f64}
      return
    }
  }
}
