// RUN: k3-opt %s --k3-configure-pipeline=gpu | FileCheck %s --check-prefix=CONFIG
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-gpu-print-ptx=assemble -o /dev/null | FileCheck %s --check-prefix=ASM %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// MXFP4 experts with a gated unit and bf16 x: weights from registers, rows of x from shared memory, as many columns as
// there are rows.
// CONFIG-LABEL: @gated
// CONFIG: strategy = "tiles", grid = [132], threads = 384, shared_bytes = 2
// CHECK-LABEL: .entry gated(
// CHECK: .maxntid 384
// CHECK: .minnctapersm 1
// CHECK: mbarrier.init
// CHECK: griddepcontrol.wait
// CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 200
// CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 104
// CHECK-DAG: mul.rn.bf16x2
// CHECK-DAG: ex2.approx
// CHECK-DAG: cp.async.cg.shared.global [
// CHECK-DAG: cp.async.cg.shared.global.L2::128B
// CHECK-DAG: fence.proxy.async.shared::cta
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}, %rd
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}, %rd
// ASM: // gated: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @gated(
// NVVM-DAG: nvvm.setmaxregister  increase 200
// NVVM-DAG: nvvm.setmaxregister  decrease 104
// NVVM-DAG: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// NVVM-DAG: nvvm.fence.proxy
func.func private @gated(%x: tensor<?x3584xbf16>, %o: tensor<897xi32>, %p: tensor<?x16xi32>, %w: tensor<896x3072x1792xi8> {k3.expert_group},
    %s: tensor<896x3072x112xi8> {k3.expert_group}, %u: tensor<896x3072x1792xi8> {k3.expert_group}, %us: tensor<896x3072x112xi8> {k3.expert_group},
    %y: tensor<?x16x3072xf32>) -> tensor<?x16x3072xf32> attributes {k3.kernel} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<?x3584xbf16>, tensor<897xi32>, tensor<?x16xi32>, tensor<896x3072x1792xi8>)
      scale(%s : tensor<896x3072x112xi8>) up_weight(%u : tensor<896x3072x1792xi8>) up_scale(%us : tensor<896x3072x112xi8>)
      outs(%y : tensor<?x16x3072xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x16x3072xf32>
  return %0 : tensor<?x16x3072xf32>
}

// bf16 experts: both operands from shared memory; f32 x is rounded on its way there.
// CONFIG-LABEL: @floats
// CONFIG: strategy = "tiles"
// CHECK-LABEL: .entry floats(
// CHECK: griddepcontrol.wait
// CHECK-DAG: cvt.rn.bf16x2.f32
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}}}, %rd{{[0-9]+}}, %rd{{[0-9]+}}, 1, 1, 1, 0, 0;
// ASM: // floats: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @floats(
// NVVM-DAG: nvvm.convert.f32x2.to.bf16x2
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
func.func private @floats(%x: tensor<?x2304xf32>, %o: tensor<257xi32>, %p: tensor<?x8xi32>, %w: tensor<256x1024x2304xbf16> {k3.expert_group},
    %u: tensor<256x1024x2304xbf16> {k3.expert_group}, %y: tensor<?x8x1024xf32>) -> tensor<?x8x1024xf32> attributes {k3.kernel} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<?x2304xf32>, tensor<257xi32>, tensor<?x8xi32>, tensor<256x1024x2304xbf16>)
      up_weight(%u : tensor<256x1024x2304xbf16>) outs(%y : tensor<?x8x1024xf32>)
      {activation = #k3.activation<swiglu>, bf16_x} -> tensor<?x8x1024xf32>
  return %0 : tensor<?x8x1024xf32>
}

// One matrix and an f32 x as it is: three terms, whose sums start from zero with every stage; 128 rows per warpgroup.
// CONFIG-LABEL: @matrix
// CONFIG: strategy = "tiles"
// CHECK-LABEL: .entry matrix(
// CHECK: griddepcontrol.wait
// CHECK: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, 0, 1, 1, 0;
// CHECK-COUNT-11: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, 1, 1, 1, 0;
// CHECK: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, 0, 1, 1, 0;
// CHECK-COUNT-11: wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{.*}}, 1, 1, 1, 0;
// CHECK: wgmma.wait_group.sync.aligned 0
// ASM: // matrix: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @matrix(
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16
// NVVM-DAG: nvvm.convert.f32x2.to.bf16x2
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
func.func private @matrix(%x: tensor<?x7168xf32>, %w: tensor<12288x3584xi8>, %s: tensor<12288x224xi8>, %y: tensor<?x12288xf32>) -> tensor<?x12288xf32>
    attributes {k3.kernel} {
  %0 = k3.mx.contract ins(%x, %w, %s : tensor<?x7168xf32>, tensor<12288x3584xi8>, tensor<12288x224xi8>) outs(%y : tensor<?x12288xf32>)
      {accumulate} -> tensor<?x12288xf32>
  return %0 : tensor<?x12288xf32>
}

// Rows of 96 are no whole number of stages.
// CONFIG-LABEL: @short
// CONFIG: strategy = "stream"
func.func private @short(%x: tensor<?x96xf32>, %w: tensor<128x48xi8>, %s: tensor<128x3xi8>, %y: tensor<?x128xf32>) -> tensor<?x128xf32>
    attributes {k3.kernel} {
  %0 = k3.mx.contract ins(%x, %w, %s : tensor<?x96xf32>, tensor<128x48xi8>, tensor<128x3xi8>) outs(%y : tensor<?x128xf32>) -> tensor<?x128xf32>
  return %0 : tensor<?x128xf32>
}

// Two steps of k: without a loop ptxas would serialise the products.
// CONFIG-LABEL: @two_steps
// CONFIG: strategy = "stream"
func.func private @two_steps(%x: tensor<?x128xbf16>, %o: tensor<5xi32>, %p: tensor<?x2xi32>, %w: tensor<4x128x128xbf16>,
    %u: tensor<4x128x128xbf16>, %y: tensor<?x2x128xf32>) -> tensor<?x2x128xf32> attributes {k3.kernel} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<?x128xbf16>, tensor<5xi32>, tensor<?x2xi32>, tensor<4x128x128xbf16>)
      up_weight(%u : tensor<4x128x128xbf16>) outs(%y : tensor<?x2x128xf32>) {activation = #k3.activation<swiglu>, bf16_x} -> tensor<?x2x128xf32>
  return %0 : tensor<?x2x128xf32>
}
}
