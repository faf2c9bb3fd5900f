// RUN: k3-opt %s --pass-pipeline='builtin.module(func.func(k3-expand-math))' --split-input-file | FileCheck %s

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v4", features = "">} {
  // Nothing is left that LLVM would turn into a call.
  // CHECK-LABEL: func.func private @functions
  // CHECK-NOT: {{math\.(exp|tanh|rsqrt|log1p|expm1)}}
  // CHECK: return
  func.func private @functions(%x: f32, %v: vector<16xf32>, %y: memref<4xf32>, %z: memref<16xf32>) attributes {k3.kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %0 = math.exp %x : f32
    %1 = math.log1p %0 : f32
    %2 = math.rsqrt %x : f32
    %3 = math.tanh %v : vector<16xf32>
    memref.store %1, %y[%c0] : memref<4xf32>
    memref.store %2, %y[%c1] : memref<4xf32>
    vector.store %3, %z[%c0] : memref<16xf32>, vector<16xf32>
    return
  }

  // Without the instruction for it, narrowing to bf16 is integer code.
  // CHECK-LABEL: func.func private @narrow
  // CHECK-NOT: arith.truncf
  // CHECK: return
  func.func private @narrow(%x: f32, %y: memref<1xbf16>) attributes {k3.kernel} {
    %c0 = arith.constant 0 : index
    %0 = arith.truncf %x : f32 to bf16
    memref.store %0, %y[%c0] : memref<1xbf16>
    return
  }
}

// -----

module attributes {k3.target = #k3.target<arch = "x86-64", cpu = "x86-64-v2", features = "">} {
  // A CPU without FMA gets a product and a sum, not a call.
  // CHECK-LABEL: func.func private @fma
  // CHECK-NOT: math.fma
  // CHECK: arith.mulf
  // CHECK: arith.addf
  func.func private @fma(%x: f32, %y: memref<1xf32>) attributes {k3.kernel} {
    %c0 = arith.constant 0 : index
    %0 = math.fma %x, %x, %x : f32
    memref.store %0, %y[%c0] : memref<1xf32>
    return
  }
}
