// RUN: k3-opt %s --pass-pipeline='builtin.module(builtin.module(func.func(k3-convert-to-vector)))' | FileCheck %s

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
  // An expert's matrix is reached through the table; experts without rows are not touched; codes are decoded in registers.
  // Rows are short: features are lanes, and elements of x are spread. What is read next is asked for, and the codes of the
  // next group are loaded between products.
  // CHECK-LABEL: func.func private @kernel
  // CHECK: scf.for %[[E:.*]] =
  // CHECK: scf.if
  // CHECK: %[[SLOT:.*]] = llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
  // CHECK: llvm.load %[[SLOT]] : !llvm.ptr -> !llvm.ptr
  // CHECK: scf.for
  // CHECK: memref.prefetch
  // CHECK: %[[W:.*]] = llvm.call_intrinsic "llvm.x86.avx512.permvar.sf.512"
  // CHECK: %[[X:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
  // CHECK: arith.mulf %[[W]], %[[X]] : vector<16xf32>
  // CHECK: vector.insert_strided_slice %{{.*}} : vector<4xi32> into vector<16xi32>
  // CHECK: llvm.x86.avx512.permvar.sf.512
  // CHECK-NOT: k3.latent_moe
  func.func private @kernel(%x: memref<?x64xf32>, %offsets: memref<5xi32>, %perm: memref<?x2xi32>,
                            %w: memref<4x8x32xi8> {k3.expert_group}, %s: memref<4x8x2xi8> {k3.expert_group},
                            %y: memref<?x2x8xf32>) attributes {k3.kernel} {
    k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w : memref<?x64xf32>, memref<5xi32>, memref<?x2xi32>, memref<4x8x32xi8>)
        scale(%s : memref<4x8x2xi8>) outs(%y : memref<?x2x8xf32>)
    return
  }
}

// Long rows are read as lines.
module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
  // CHECK-LABEL: func.func private @lines
  // CHECK: vector.load %{{.*}} : {{.*}}, vector<64xi8>
  // CHECK-NOT: vector<4xi32> into vector<16xi32>
  // CHECK-NOT: k3.latent_moe
  func.func private @lines(%x: memref<?x1024xf32>, %offsets: memref<5xi32>, %perm: memref<?x2xi32>,
                           %w: memref<4x8x512xi8> {k3.expert_group}, %s: memref<4x8x32xi8> {k3.expert_group},
                           %y: memref<?x2x8xf32>) attributes {k3.kernel} {
    k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w : memref<?x1024xf32>, memref<5xi32>, memref<?x2xi32>, memref<4x8x512xi8>)
        scale(%s : memref<4x8x32xi8>) outs(%y : memref<?x2x8xf32>)
    return
  }
}

// With rounded inputs, codes become pairs of bf16 where the target multiplies these.
module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "znver4", features = "">} {
  // CHECK-LABEL: func.func private @pairs
  // CHECK: "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
  // CHECK: "llvm.x86.avx512.permvar.hi.512"
  // CHECK: "llvm.x86.avx512bf16.dpbf16ps.512"
  // CHECK-NOT: permvar.sf
  func.func private @pairs(%x: memref<?x128xf32>, %offsets: memref<5xi32>, %perm: memref<?x2xi32>, %w: memref<4x8x64xi8> {k3.expert_group},
                           %s: memref<4x8x4xi8> {k3.expert_group}, %y: memref<?x2x8xf32>) attributes {k3.kernel} {
    k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w : memref<?x128xf32>, memref<5xi32>, memref<?x2xi32>, memref<4x8x64xi8>)
        scale(%s : memref<4x8x4xi8>) outs(%y : memref<?x2x8xf32>) {bf16_x}
    return
  }
}
