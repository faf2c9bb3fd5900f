// What is not needed for the fault goes: other functions, other ops, and the ops around it.
// RUN: k3-reduce %s --k3-reduce-ops=test=%S/Inputs/has-attend.sh | FileCheck %s
// RUN: not k3-reduce %s --k3-reduce-ops=test=%S/Inputs/has-lm-head.sh 2>&1 | FileCheck %s --check-prefix=BORING
// BORING: error: expected an interesting file, but '{{.*}}has-lm-head.sh' does not exit with 1
// RUN: not k3-reduce %s --k3-reduce-ops 2>&1 | FileCheck %s --check-prefix=NO-TEST
// NO-TEST: error: expected 'test', a script that exits with 1 for an interesting file, got none
// RUN: k3-reduce --version | FileCheck %s --check-prefix=VERSION
// VERSION: k3-reduce {{[0-9.]+}} (LLVM 22

// CHECK-NOT: func.func @mlp
func.func @mlp(%x: tensor<?x8xf32>, %up: tensor<16x8xbf16>, %down: tensor<8x16xbf16>) -> tensor<?x8xf32> {
  %0 = k3.mlp %x : tensor<?x8xf32> gate_proj(%up : tensor<16x8xbf16>) up_proj(%up : tensor<16x8xbf16>)
      down_proj(%down : tensor<8x16xbf16>) {activation = #k3.activation<swiglu>}
  return %0 : tensor<?x8xf32>
}

// CHECK: func.func @attend
func.func @attend(%x: tensor<?x4x10xf32>, %kv_b: tensor<4x11x8xbf16>, %q: tensor<?x4x12xf32>,
                  %cache: tensor<?x16x12xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>, %pages: tensor<?x?xi32>,
                  %latent: tensor<?x4x8xf32>, %out: tensor<?x4x5xf32>) -> tensor<?x4x5xf32> {
  // CHECK-NEXT: k3.mla.attend
  // CHECK-NEXT: return
  // CHECK-NOT: k3.
  %0 = k3.mla.absorb ins(%x, %kv_b : tensor<?x4x10xf32>, tensor<4x11x8xbf16>) outs(%q : tensor<?x4x12xf32>)
      {nope = 6 : i64} -> tensor<?x4x12xf32>
  %1 = k3.mla.attend ins(%0, %cache, %cu, %lengths, %pages
      : tensor<?x4x12xf32>, tensor<?x16x12xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%latent : tensor<?x4x8xf32>) {scale = 0.3 : f64} -> tensor<?x4x8xf32>
  %2 = k3.mla.expand ins(%1, %kv_b : tensor<?x4x8xf32>, tensor<4x11x8xbf16>) outs(%out : tensor<?x4x5xf32>)
      {nope = 6 : i64} -> tensor<?x4x5xf32>
  return %2 : tensor<?x4x5xf32>
}
