// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// A long row is a block's: four runs of 16 bytes for each of 448 threads, and of the weight.
// CONFIG-LABEL: @wide
// CONFIG: strategy = "row", grid = [T / 1], threads = 448, shared_bytes = 56>
// CHECK-LABEL: .entry wide(
// CHECK: .maxntid 448
// CHECK: griddepcontrol.wait
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: shfl.sync.bfly
// CHECK: bar.sync
// CHECK: rsqrt.approx.ftz.f32
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @wide(
// NVVM-SAME: nvvm.maxntid = array<i32: 448>
// NVVM-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: nvvm.shfl.sync  bfly
// NVVM-COUNT-4: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @wide(%x: tensor<?x7168xf32>, %w: tensor<7168xbf16>, %y: tensor<?x7168xf32>) -> tensor<?x7168xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x7168xf32>, tensor<7168xbf16>) outs(%y : tensor<?x7168xf32>) {eps = 1.0e-5 : f64} -> tensor<?x7168xf32>
  return %0 : tensor<?x7168xf32>
}

// A short row is a warp's, eight of them a block.
// CONFIG-LABEL: @narrow
// CONFIG: strategy = "row", grid = [T / 8], threads = 256>
// CHECK-LABEL: .entry narrow(
// CHECK: .maxntid 256
// CHECK: griddepcontrol.wait
// CHECK-NOT: bar.sync
// CHECK: shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @narrow(
// NVVM-NOT: nvvm.barrier0
// NVVM: nvvm.shfl.sync  bfly
// NVVM-NOT: nvvm.barrier0
// NVVM: llvm.return
func.func private @narrow(%x: tensor<?x48xbf16>, %w: tensor<48xbf16>, %y: tensor<?x48xbf16>) -> tensor<?x48xbf16> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x48xbf16>, tensor<48xbf16>) outs(%y : tensor<?x48xbf16>) {eps = 1.0e-5 : f64} -> tensor<?x48xbf16>
  return %0 : tensor<?x48xbf16>
}

// Rows of a slot of the stream are aligned, wherever the slot is.
// CHECK-LABEL: .entry slot(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4.b32
// CHECK-NOT: ld.global.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @slot(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
func.func private @slot(%s: tensor<9x?x2304xf32>, %w: tensor<2304xbf16>, %i: index, %n: index, %y: tensor<?x2304xf32>) -> tensor<?x2304xf32> attributes {k3.kernel} {
  %x = tensor.extract_slice %s[%i, 0, 0] [1, %n, 2304] [1, 1, 1] : tensor<9x?x2304xf32> to tensor<?x2304xf32>
  %0 = k3.rms_norm ins(%x, %w : tensor<?x2304xf32>, tensor<2304xbf16>) outs(%y : tensor<?x2304xf32>) {eps = 1.0e-5 : f64} -> tensor<?x2304xf32>
  return %0 : tensor<?x2304xf32>
}

// Rows of any length, element by element.
// CHECK-LABEL: .entry odd(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.b32
// CHECK-NOT: v4
// CHECK: ret;
// NVVM-LABEL: llvm.func @odd(
// NVVM-NOT: vector<4x
// NVVM: llvm.return
func.func private @odd(%x: tensor<?x37xf32>, %w: tensor<37xf32>, %y: tensor<?x37xf32>) -> tensor<?x37xf32> attributes {k3.kernel} {
  %0 = k3.rms_norm ins(%x, %w : tensor<?x37xf32>, tensor<37xf32>) outs(%y : tensor<?x37xf32>) {eps = 1.0e-5 : f64} -> tensor<?x37xf32>
  return %0 : tensor<?x37xf32>
}

// A warp per head; four tokens in flight in prefill, one in decoding.
// CONFIG-LABEL: @gated
// CONFIG: strategy = "row", grid = [T / 4, H / 8], threads = 256>
// CHECK-LABEL: .entry gated(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-9: ld.global.v4.b32
// CHECK: shfl.sync.bfly
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @gated(
// NVVM-COUNT-9: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @gated(%x: tensor<?x32x128xf32>, %g: tensor<?x32x128xf32>, %w: tensor<128xf32>, %y: tensor<?x32x128xf32>) -> tensor<?x32x128xf32> attributes {k3.kernel} {
  %0 = k3.kda.gated_norm ins(%x, %g, %w : tensor<?x32x128xf32>, tensor<?x32x128xf32>, tensor<128xf32>) outs(%y : tensor<?x32x128xf32>) {eps = 1.0e-5 : f64} -> tensor<?x32x128xf32>
  return %0 : tensor<?x32x128xf32>
}
// CONFIG-LABEL: @gated_decode
// CONFIG: strategy = "row", grid = [T / 1, H / 8], threads = 256>
// NVVM-LABEL: llvm.func @gated_decode(
// NVVM-COUNT-3: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @gated_decode(%x: tensor<?x32x128xf32>, %g: tensor<?x32x128xf32>, %w: tensor<128xf32>, %y: tensor<?x32x128xf32>) -> tensor<?x32x128xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.kda.gated_norm ins(%x, %g, %w : tensor<?x32x128xf32>, tensor<?x32x128xf32>, tensor<128xf32>) outs(%y : tensor<?x32x128xf32>) {eps = 1.0e-5 : f64} -> tensor<?x32x128xf32>
  return %0 : tensor<?x32x128xf32>
}
}
