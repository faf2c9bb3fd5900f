// RUN: k3-opt %s --k3-configure-pipeline | FileCheck %s
// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-configure-kernels{force-generic}))' | FileCheck %s --check-prefix=GENERIC

// A dynamic loop gets its tile, a static one is cut so that a workgroup reads at least 64 KiB of weights.
// CHECK-LABEL: func.func private @linear
// CHECK: kernel_config = #k3.kernel_config<tiles = [64, 64], strategy = "vector">
// GENERIC: kernel_config = #k3.kernel_config<tiles = [64, 64], strategy = "generic">
func.func private @linear(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// Many tiles are of one size and an even number: not 27 of 48, the last one smaller.
// CHECK-LABEL: func.func private @many_tiles
// CHECK: kernel_config = #k3.kernel_config<tiles = [64, 32], strategy = "vector">
// GENERIC: kernel_config = #k3.kernel_config<tiles = [64, 32], strategy = "generic">
func.func private @many_tiles(%x: tensor<?x768xf32>, %w: tensor<1280x768xbf16>, %y: tensor<?x1280xf32>) -> tensor<?x1280xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x768xf32>, tensor<1280x768xbf16>) outs(%y : tensor<?x1280xf32>) -> tensor<?x1280xf32>
  return %0 : tensor<?x1280xf32>
}

// A config that is there is kept.
// CHECK-LABEL: func.func private @given
// CHECK: kernel_config = #k3.kernel_config<tiles = [0, 16], strategy = "generic">
func.func private @given(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>)
      {kernel_config = #k3.kernel_config<tiles = [0, 16], strategy = "generic">} -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// Not a kernel.
// CHECK-LABEL: func.func @layer
// CHECK-NOT: kernel_config
func.func @layer(%x: tensor<?x512xf32>, %w: tensor<256x512xbf16>, %y: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<256x512xbf16>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// An expert group is bound as a table of pointers, which only the emitter reads.
// CHECK-LABEL: func.func private @experts
// CHECK: k3.latent_moe.grouped_contract{{.*}}strategy = "vector"
// GENERIC: k3.latent_moe.grouped_contract{{.*}}strategy = "vector"
func.func private @experts(%x: tensor<?x64xf32>, %offsets: tensor<9xi32>, %perm: tensor<?x2xi32>,
                           %w: tensor<8x32x64xbf16> {k3.expert_group}, %y: tensor<?x2x32xf32>) -> tensor<?x2x32xf32>
    attributes {k3.kernel} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w : tensor<?x64xf32>, tensor<9xi32>, tensor<?x2xi32>, tensor<8x32x64xbf16>)
      outs(%y : tensor<?x2x32xf32>) -> tensor<?x2x32xf32>
  return %0 : tensor<?x2x32xf32>
}

// Products that round their inputs get wider tiles: each workgroup rounds all its rows.
// CHECK-LABEL: func.func private @bf16_products
// CHECK: kernel_config = #k3.kernel_config<tiles = [64, 128], strategy = "vector">
func.func private @bf16_products(%x: tensor<?x512xf32>, %w: tensor<4096x512xbf16>, %y: tensor<?x4096xf32>) -> tensor<?x4096xf32>
    attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x512xf32>, tensor<4096x512xbf16>) outs(%y : tensor<?x4096xf32>) {bf16_x} -> tensor<?x4096xf32>
  return %0 : tensor<?x4096xf32>
}

// Channels of a convolution are cut into tiles of one size, rows of cheap work into powers of two.
// CHECK-LABEL: func.func private @short_conv
// CHECK: kernel_config = #k3.kernel_config<tiles = [768], strategy = "vector">
// GENERIC: kernel_config = #k3.kernel_config<tiles = [768], strategy = "generic">
func.func private @short_conv(%x: tensor<?x1536xf32>, %w: tensor<1536x4xbf16>, %cu: tensor<?xi32>, %slots: tensor<?xi32>,
                              %y: tensor<?x1536xf32>, %state: tensor<?x3x1536xf32>) -> (tensor<?x1536xf32>, tensor<?x3x1536xf32>)
    attributes {k3.kernel} {
  %0:2 = k3.kda.short_conv ins(%x, %w, %cu, %slots : tensor<?x1536xf32>, tensor<1536x4xbf16>, tensor<?xi32>, tensor<?xi32>)
      outs(%y, %state : tensor<?x1536xf32>, tensor<?x3x1536xf32>) {silu = true} -> tensor<?x1536xf32>, tensor<?x3x1536xf32>
  return %0#0, %0#1 : tensor<?x1536xf32>, tensor<?x3x1536xf32>
}

// All heads of attention read the same cache rows: eight in a workgroup, two where there would be too few workgroups.
// CHECK-LABEL: func.func private @attend
// CHECK: kernel_config = #k3.kernel_config<tiles = [8], strategy = "vector">
func.func private @attend(%q: tensor<?x16x416xf32>, %cache: tensor<?x64x416xf32>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                          %table: tensor<?x?xi32>, %y: tensor<?x16x384xf32>) -> tensor<?x16x384xf32>
    attributes {k3.kernel} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table : tensor<?x16x416xf32>, tensor<?x64x416xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%y : tensor<?x16x384xf32>) {scale = 1.0 : f64} -> tensor<?x16x384xf32>
  return %0 : tensor<?x16x384xf32>
}

// CHECK-LABEL: func.func private @attend_few
// CHECK: kernel_config = #k3.kernel_config<tiles = [2], strategy = "vector">
func.func private @attend_few(%q: tensor<?x4x416xf32>, %cache: tensor<?x64x416xf32>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                              %table: tensor<?x?xi32>, %y: tensor<?x4x384xf32>) -> tensor<?x4x384xf32>
    attributes {k3.kernel} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table : tensor<?x4x416xf32>, tensor<?x64x416xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%y : tensor<?x4x384xf32>) {scale = 1.0 : f64} -> tensor<?x4x384xf32>
  return %0 : tensor<?x4x384xf32>
}

// A mix over slots has code of its own, a row per workgroup.
// CHECK-LABEL: func.func private @mix
// CHECK: kernel_config = #k3.kernel_config<tiles = [1], strategy = "vector">
// GENERIC: kernel_config = #k3.kernel_config<tiles = [1], strategy = "generic">
func.func private @mix(%s: tensor<4x?x320xf32>, %n: tensor<320xbf16>, %p: tensor<1x320xbf16>, %sources: index, %y: tensor<?x320xf32>) -> tensor<?x320xf32>
    attributes {k3.kernel} {
  %0 = k3.attn_res.mix ins(%s, %sources, %n, %p : tensor<4x?x320xf32>, index, tensor<320xbf16>, tensor<1x320xbf16>)
      outs(%y : tensor<?x320xf32>) {eps = 1.0e-5 : f64} -> tensor<?x320xf32>
  return %0 : tensor<?x320xf32>
}

// CHECK-LABEL: func.func private @rms_norm
// CHECK: kernel_config = #k3.kernel_config<tiles = [8], strategy = "generic">
func.func private @rms_norm(%x: tensor<?x160xf32>, %w: tensor<160xbf16>, %y: tensor<?x160xf32>) -> tensor<?x160xf32>
    attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x160xf32>, tensor<160xbf16>) outs(%y : tensor<?x160xf32>) {eps = 1.0e-5} -> tensor<?x160xf32>
  return %0 : tensor<?x160xf32>
}
