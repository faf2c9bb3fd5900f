// RUN: k3-opt %s --k3-configure-pipeline=gpu | FileCheck %s --check-prefix=CONFIG
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-gpu-print-ptx=assemble -o /dev/null | FileCheck %s --check-prefix=ASM %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// bf16 x: operands and results by tensor copies, four steps of k per stage.
// CONFIG-LABEL: @tiles
// CONFIG: strategy = "gemm", grid = [132], threads = 384, shared_bytes = 229440, tensor_maps = [<0, box = [128, 64], swizzle = 128>, <1, box = [256, 64], swizzle = 128>, <2, box = [16, 32], swizzle = 128>]
// CHECK-LABEL: .entry tiles(
// CHECK: .maxntid 384
// CHECK: .minnctapersm 1
// CHECK: mbarrier.init
// CHECK: griddepcontrol.wait
// CHECK: setmaxnreg.inc.sync.aligned.u32 232
// CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// CHECK: wgmma.wait_group.sync.aligned 1
// CHECK: st.shared.v2.b32
// CHECK: fence.proxy.async.shared::cta
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK: setmaxnreg.dec.sync.aligned.u32 40
// CHECK-COUNT-2: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK: ret;
// ASM: // tiles: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @tiles(
// NVVM-SAME: nvvm.grid_constant
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// NVVM-DAG: nvvm.cp.async.bulk.tensor.shared.cluster.global 
// NVVM-DAG: nvvm.cp.async.bulk.tensor.global.shared.cta 
// NVVM-DAG: nvvm.setmaxregister  increase 232
// NVVM-DAG: nvvm.setmaxregister  decrease 40
func.func private @tiles(%x: tensor<?x7168xbf16>, %w: tensor<4096x7168xbf16>, %y: tensor<?x4096xf32>) -> tensor<?x4096xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x7168xbf16>, tensor<4096x7168xbf16>) outs(%y : tensor<?x4096xf32>) {bf16_x} -> tensor<?x4096xf32>
  return %0 : tensor<?x4096xf32>
}

// f32 x that may be rounded: A from registers; x takes two boxes per stage; tiles as wide as the weight.
// CONFIG-LABEL: @rounded
// CONFIG: tensor_maps = [<0, box = [128, 32], swizzle = 128>, <1, box = [192, 64], swizzle = 128>]
// CHECK-LABEL: .entry rounded(
// CHECK: griddepcontrol.wait
// CHECK: ld.shared.v2.b32
// CHECK: cvt.rn.bf16x2.f32
// CHECK: wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {{.*}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}, %rd
// CHECK: ld.global.v4.b32
// CHECK: st.global.v4.b32
// CHECK-COUNT-3: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK: ret;
// ASM: // rounded: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @rounded(
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16
// NVVM-DAG: nvvm.convert.f32x2.to.bf16x2
// NVVM-DAG: nvvm.cp.async.bulk.tensor.shared.cluster.global 
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM-DAG: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @rounded(%x: tensor<?x2304xf32>, %w: tensor<576x2304xbf16>, %y: tensor<?x576xf32>) -> tensor<?x576xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x2304xf32>, tensor<576x2304xbf16>) outs(%y : tensor<?x576xf32>) {accumulate, bf16_x} -> tensor<?x576xf32>
  return %0 : tensor<?x576xf32>
}

// f32 x as it is: three products for each step; the sums of a stage start from zero and are added in f32.
// CONFIG-LABEL: @exact
// CONFIG: box = [128, 64]
// CHECK-LABEL: .entry exact(
// CHECK: griddepcontrol.wait
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}}, 0, 1, 1, 0;
// CHECK-COUNT-11: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}}, 1, 1, 1, 0;
// CHECK-NOT: wgmma.mma_async
// CHECK: ret;
// ASM: // exact: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @exact(
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// NVVM-DAG: nvvm.cp.async.bulk.tensor.shared.cluster.global 
// NVVM-DAG: nvvm.cp.async.bulk.tensor.global.shared.cta 
func.func private @exact(%x: tensor<?x7168xf32>, %w: tensor<896x7168xbf16>, %y: tensor<?x896xf32>) -> tensor<?x896xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x7168xf32>, tensor<896x7168xbf16>) outs(%y : tensor<?x896xf32>) -> tensor<?x896xf32>
  return %0 : tensor<?x896xf32>
}

// Heads that are collapsed: a box of three dimensions. A bf16 result.
// CONFIG-LABEL: @heads
// CONFIG: tensor_maps = [<0, box = [128, 1, 64], swizzle = 128>, {{.*}}, <2, box = [16, 64], swizzle = 128>]
// CHECK-LABEL: .entry heads(
// CHECK: griddepcontrol.wait
// CHECK: cvt.rn.bf16x2.f32
// CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK: cp.async.bulk.tensor.3d.shared::cluster.global
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK: ret;
// ASM: // heads: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @heads(
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// NVVM-DAG: nvvm.stmatrix
// NVVM-DAG: nvvm.cp.async.bulk.tensor.shared.cluster.global {{.*}}, box[%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}]
// NVVM-DAG: nvvm.cp.async.bulk.tensor.global.shared.cta 
func.func private @heads(%x: tensor<?x32x128xbf16>, %w: tensor<2304x4096xbf16>, %y: tensor<?x2304xbf16>) -> tensor<?x2304xbf16> attributes {k3.kernel} {
  %rows = tensor.collapse_shape %x [[0], [1, 2]] : tensor<?x32x128xbf16> into tensor<?x4096xbf16>
  %0 = k3.linear ins(%rows, %w : tensor<?x4096xbf16>, tensor<2304x4096xbf16>) outs(%y : tensor<?x2304xbf16>) {bf16_x} -> tensor<?x2304xbf16>
  return %0 : tensor<?x2304xbf16>
}

// Rows that do not start at multiples of 16 bytes.
// CONFIG-LABEL: @unaligned
// CONFIG-NOT: "gemm"
// CONFIG: return
func.func private @unaligned(%x: tensor<?x37xf32>, %w: tensor<19x37xbf16>, %y: tensor<?x19xf32>) -> tensor<?x19xf32> attributes {k3.kernel} {
  %0 = k3.linear ins(%x, %w : tensor<?x37xf32>, tensor<19x37xbf16>) outs(%y : tensor<?x19xf32>) -> tensor<?x19xf32>
  return %0 : tensor<?x19xf32>
}
}
