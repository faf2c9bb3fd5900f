// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// Tiles of 32 rows in prefill, eight rows in flight.
// CONFIG-LABEL: @conv
// CONFIG: strategy = "window", grid = [T / 32, C / 512], threads = 128>
// CHECK-LABEL: .entry conv(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @conv(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// NVVM-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @conv(%x: tensor<?x12288xf32>, %w: tensor<12288x4xbf16>, %cu: tensor<?xi32>, %sl: tensor<?xi32>, %y: tensor<?x12288xf32>, %st: tensor<?x3x12288xf32>) -> (tensor<?x12288xf32>, tensor<?x3x12288xf32>) attributes {k3.kernel} {
  %0:2 = k3.kda.short_conv ins(%x, %w, %cu, %sl : tensor<?x12288xf32>, tensor<12288x4xbf16>, tensor<?xi32>, tensor<?xi32>) outs(%y, %st : tensor<?x12288xf32>, tensor<?x3x12288xf32>) {silu = true} -> tensor<?x12288xf32>, tensor<?x3x12288xf32>
  return %0#0, %0#1 : tensor<?x12288xf32>, tensor<?x3x12288xf32>
}
// CONFIG-LABEL: @conv_decode
// CONFIG: strategy = "window", grid = [T / 1, C / 512], threads = 128>
// NVVM-LABEL: llvm.func @conv_decode(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
func.func private @conv_decode(%x: tensor<?x12288xf32>, %w: tensor<12288x4xbf16>, %cu: tensor<?xi32>, %sl: tensor<?xi32>, %y: tensor<?x12288xf32>, %st: tensor<?x3x12288xbf16>) -> (tensor<?x12288xf32>, tensor<?x3x12288xbf16>) attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0:2 = k3.kda.short_conv ins(%x, %w, %cu, %sl : tensor<?x12288xf32>, tensor<12288x4xbf16>, tensor<?xi32>, tensor<?xi32>) outs(%y, %st : tensor<?x12288xf32>, tensor<?x3x12288xbf16>) {silu = true} -> tensor<?x12288xf32>, tensor<?x3x12288xbf16>
  return %0#0, %0#1 : tensor<?x12288xf32>, tensor<?x3x12288xbf16>
}

// A warp has eight rows of the state, in flight before anything else; every one is written once.
// CONFIG-LABEL: @step
// CONFIG: strategy = "rows", grid = [N / 1, H / 1, V / 32], threads = 128>
// CHECK-LABEL: .entry step(
// CHECK: griddepcontrol.wait
// Of the state, then of keys, queries and decays.
// CHECK-COUNT-20: ld.global.v4.b32
// CHECK-NOT: ld.global.v4.b32
// CHECK-COUNT-8: st.global.v4.b32
// CHECK-NOT: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @step(
// NVVM-COUNT-20: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM-NOT: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM-COUNT-8: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @step(%q: tensor<?x96x128xf32>, %k: tensor<?x96x128xf32>, %v: tensor<?x96x128xf32>, %b: tensor<?x96xf32>, %sl: tensor<?xi32>, %g: tensor<?x96x128xf32>, %y: tensor<?x96x128xf32>, %st: tensor<?x96x128x128xf32>) -> (tensor<?x96x128xf32>, tensor<?x96x128x128xf32>) attributes {k3.kernel} {
  %0:2 = k3.kda.recurrent_step ins(%q, %k, %v, %b, %sl : tensor<?x96x128xf32>, tensor<?x96x128xf32>, tensor<?x96x128xf32>, tensor<?x96xf32>, tensor<?xi32>) g(%g : tensor<?x96x128xf32>) outs(%y, %st : tensor<?x96x128xf32>, tensor<?x96x128x128xf32>) {scale = 0.08838834764831845 : f64, l2norm = true, delta = true} -> tensor<?x96x128xf32>, tensor<?x96x128x128xf32>
  return %0#0, %0#1 : tensor<?x96x128xf32>, tensor<?x96x128x128xf32>
}

// A block has a head: its warps read all rows of the state before they make the vectors that the rows meet.
// CONFIG-LABEL: @decode_step
// CONFIG: strategy = "head", grid = [N / 1, H / 1], threads = 512, shared_bytes = {{[0-9]+}}>
// CHECK-LABEL: .entry decode_step(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: bar.sync
// CHECK-COUNT-8: st.global.v4.b32
// CHECK: bar.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @decode_step(
// NVVM-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @decode_step(%q: tensor<?x12288xf32>, %k: tensor<?x12288xf32>, %v: tensor<?x12288xf32>, %z: tensor<?x96x128xf32>, %b: tensor<?x96xf32>, %gate: tensor<?x96x128xf32>, %qw: tensor<12288x4xbf16>, %kw: tensor<12288x4xbf16>, %vw: tensor<12288x4xbf16>, %bias: tensor<96x128xf32>, %nw: tensor<128xbf16>, %sl: tensor<?xi32>, %a: tensor<96xf32>, %y: tensor<?x96x128xf32>, %st: tensor<?x96x128x128xf32>, %cq: tensor<?x3x12288xbf16>, %ck: tensor<?x3x12288xbf16>, %cv: tensor<?x3x12288xbf16>) -> (tensor<?x96x128xf32>, tensor<?x96x128x128xf32>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>) attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0:5 = k3.kda.decode_step ins(%q, %k, %v, %z, %b, %gate, %qw, %kw, %vw, %bias, %nw, %sl : tensor<?x12288xf32>, tensor<?x12288xf32>, tensor<?x12288xf32>, tensor<?x96x128xf32>, tensor<?x96xf32>, tensor<?x96x128xf32>, tensor<12288x4xbf16>, tensor<12288x4xbf16>, tensor<12288x4xbf16>, tensor<96x128xf32>, tensor<128xbf16>, tensor<?xi32>) a_log(%a : tensor<96xf32>) outs(%y, %st, %cq, %ck, %cv : tensor<?x96x128xf32>, tensor<?x96x128x128xf32>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64, scale = 0.08838834764831845 : f64, l2norm = true, delta = true, eps = 1.0e-5 : f64} -> tensor<?x96x128xf32>, tensor<?x96x128x128xf32>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<?x96x128xf32>, tensor<?x96x128x128xf32>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>, tensor<?x3x12288xbf16>
}
}
