// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// Four rows of 16 bytes are in flight per thread in prefill, one in decoding.
// CONFIG-LABEL: @glu
// CONFIG: strategy = "elementwise", grid = [T / 4, n / 1024], threads = 256>
// CHECK-LABEL: .entry glu(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: ex2.approx.ftz.f32
// CHECK: rcp.approx.ftz.f32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @glu(
// NVVM-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @glu(%x: tensor<?x6144xf32>, %g: tensor<?x6144xf32>, %y: tensor<?x6144xf32>) -> tensor<?x6144xf32> attributes {k3.kernel} {
  %0 = k3.glu ins(%x, %g : tensor<?x6144xf32>, tensor<?x6144xf32>) outs(%y : tensor<?x6144xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x6144xf32>
  return %0 : tensor<?x6144xf32>
}

// Blocks divide a row without rest where they can: 2304 / 4 runs are three times 192.
// CONFIG-LABEL: @sigmoid
// CONFIG: strategy = "elementwise", grid = [T / 1, n / 768], threads = 192>
// CHECK-LABEL: .entry sigmoid(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-NOT: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @sigmoid(
// NVVM-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM-NOT: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @sigmoid(%x: tensor<?x2304xf32>, %g: tensor<?x2304xf32>, %y: tensor<?x2304xf32>) -> tensor<?x2304xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.sigmoid_gate ins(%x, %g : tensor<?x2304xf32>, tensor<?x2304xf32>) outs(%y : tensor<?x2304xf32>) -> tensor<?x2304xf32>
  return %0 : tensor<?x2304xf32>
}

// Short rows fill a block side by side; 19 elements have no common run.
// CONFIG-LABEL: @narrow
// CONFIG: strategy = "elementwise", grid = [T / 13], threads = 256>
// CHECK-LABEL: .entry narrow(
// CHECK: griddepcontrol.wait
// CHECK-NOT: v4
// CHECK: ret;
// NVVM-LABEL: llvm.func @narrow(
// NVVM-NOT: vector<4x
// NVVM: llvm.return
func.func private @narrow(%x: tensor<?x19xf32>, %g: tensor<?x19xf32>, %y: tensor<?x19xf32>) -> tensor<?x19xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.sigmoid_gate ins(%x, %g : tensor<?x19xf32>, tensor<?x19xf32>) outs(%y : tensor<?x19xf32>) -> tensor<?x19xf32>
  return %0 : tensor<?x19xf32>
}

// Eight bf16 are 16 bytes, and two times 16 bytes of f32.
// CONFIG-LABEL: @gather
// CONFIG: strategy = "elementwise", grid = [T / 4, d / 1792], threads = 224>
// CHECK-LABEL: .entry gather(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.b32
// CHECK: ld.global.v4.b32
// CHECK-COUNT-2: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @gather(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @gather(%i: tensor<?xi32>, %t: tensor<163840x7168xbf16>, %y: tensor<?x7168xf32>) -> tensor<?x7168xf32> attributes {k3.kernel} {
  %0 = k3.gather_rows ins(%i, %t : tensor<?xi32>, tensor<163840x7168xbf16>) outs(%y : tensor<?x7168xf32>) -> tensor<?x7168xf32>
  return %0 : tensor<?x7168xf32>
}

// The stream is written, so it is not read through the cache for constants.
// CHECK-LABEL: .entry accumulate(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4.b32
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @accumulate(
// NVVM-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @accumulate(%x: tensor<?x7168xf32>, %i: index, %y: tensor<9x?x7168xf32>) -> tensor<9x?x7168xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.attn_res.accumulate ins(%x, %i : tensor<?x7168xf32>, index) outs(%y : tensor<9x?x7168xf32>) -> tensor<9x?x7168xf32>
  return %0 : tensor<9x?x7168xf32>
}

// CONFIG-LABEL: @combine
// CONFIG: strategy = "elementwise", grid = [T / 1, n / 896], threads = 224>
// CHECK-LABEL: .entry combine(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4.b32
// CHECK-COUNT-16: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @combine(
// NVVM-COUNT-17: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @combine(%x: tensor<?x16x3584xf32>, %w: tensor<?x16xf32>, %y: tensor<?x3584xf32>) -> tensor<?x3584xf32> attributes {k3.kernel} {
  %0 = k3.latent_moe.combine ins(%x, %w : tensor<?x16x3584xf32>, tensor<?x16xf32>) outs(%y : tensor<?x3584xf32>) {accumulate} -> tensor<?x3584xf32>
  return %0 : tensor<?x3584xf32>
}

// The parts of a row are whole heads; the projections come as one row per token.
// CONFIG-LABEL: @gate
// CONFIG: strategy = "elementwise", grid = [T / 4, H / 8], threads = 256>
// CHECK-LABEL: .entry gate(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-5: ld.global.v4.b32
// CHECK: ex2.approx.ftz.f32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @gate(
// NVVM-COUNT-5: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @gate(%z: tensor<?x12288xf32>, %b: tensor<12288xf32>, %a: tensor<96xf32>, %y: tensor<?x96x128xf32>) -> tensor<?x96x128xf32> attributes {k3.kernel} {
  %c0 = arith.constant 0 : index
  %T = tensor.dim %z, %c0 : tensor<?x12288xf32>
  %ze = tensor.expand_shape %z [[0], [1, 2]] output_shape [%T, 96, 128] : tensor<?x12288xf32> into tensor<?x96x128xf32>
  %be = tensor.expand_shape %b [[0, 1]] output_shape [96, 128] : tensor<12288xf32> into tensor<96x128xf32>
  %0 = k3.kda.gate ins(%ze, %be : tensor<?x96x128xf32>, tensor<96x128xf32>) a_log(%a : tensor<96xf32>) outs(%y : tensor<?x96x128xf32>) {kind = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x96x128xf32>
  return %0 : tensor<?x96x128xf32>
}
}
