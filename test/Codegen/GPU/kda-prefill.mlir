// RUN: k3-opt %s --k3-configure-pipeline=gpu | FileCheck %s --check-prefix=CONFIG
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu --k3-gpu-print-ptx -o %t.mlir | FileCheck %s --implicit-check-not=.local
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.mlir

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// Kimi K3: q, k and logits come four channels at a time, the gate is a sigmoid (ex2, rcp), products are those of warps.
// Two blocks of 16 warps fit a multiprocessor; results leave in whole rows.
// CONFIG-LABEL: @bounded
// CONFIG: strategy = "mma", grid = [H / 1, C / 1], threads = 512, shared_bytes = 112384>
// CHECK-LABEL: .entry bounded(
// CHECK: .maxntid 512
// CHECK: .minnctapersm 2
// CHECK: griddepcontrol.wait
// CHECK-COUNT-12: ld.global.v2.b32
// CHECK: cp.async.cg.shared.global
// CHECK: ex2.approx.ftz.f32
// CHECK: rcp.approx.ftz.f32
// CHECK: bar.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: bar.sync
// CHECK-COUNT-4: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @bounded(
// NVVM-SAME: nvvm.maxntid = array<i32: 512>, nvvm.minctasm = 2
// NVVM-DAG: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xi32>
// NVVM-DAG: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: nvvm.stmatrix {{.*}}layout = #nvvm.mma_layout<col>
// NVVM-DAG: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
func.func private @bounded(%q: tensor<?x96x128xbf16>, %k: tensor<?x96x128xbf16>, %v: tensor<?x96x128xbf16>, %g: tensor<?x96x128xbf16>, %beta: tensor<?x96xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<96x128xf32>, %rate: tensor<96xf32>,
    %qg: tensor<?x96x64x128xbf16>, %w: tensor<?x96x64x128xbf16>, %u: tensor<?x96x64x128xbf16>, %kd: tensor<?x96x64x128xbf16>, %aqk: tensor<?x96x64x64xbf16>, %gl: tensor<?x96x128xf32>)
    -> (tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x64xbf16>, tensor<?x96x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x96x128xbf16>, tensor<?x96x128xbf16>, tensor<?x96x128xbf16>, tensor<?x96x128xbf16>, tensor<?x96xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<96x128xf32>) a_log(%rate : tensor<96xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x64xbf16>, tensor<?x96x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<tile_row>, gate = #k3.gate_kind<bounded_sigmoid>, lower_bound = -5.0 : f64} -> tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x64xbf16>, tensor<?x96x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x64xbf16>, tensor<?x96x128xf32>
}

// Kimi-Linear: softplus (ex2, lg2), and four levels inside each tile on the diagonal, with a barrier before and after.
// CONFIG-LABEL: @unbounded
// CONFIG: strategy = "mma", grid = [H / 1, C / 1], threads = 256, shared_bytes = 114448>
// CHECK-LABEL: .entry unbounded(
// CHECK: griddepcontrol.wait
// CHECK: lg2.approx.ftz.f32
// CHECK-COUNT-13: bar.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @unbounded(
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
func.func private @unbounded(%q: tensor<?x32x128xf32>, %k: tensor<?x32x128xf32>, %v: tensor<?x32x128xf32>, %g: tensor<?x32x128xf32>, %beta: tensor<?x32xf32>, %chunks: tensor<?x2xi32>, %bias: tensor<32x128xf32>, %rate: tensor<32xf32>,
    %qg: tensor<?x32x64x128xbf16>, %w: tensor<?x32x64x128xbf16>, %u: tensor<?x32x64x128xbf16>, %kd: tensor<?x32x64x128xbf16>, %aqk: tensor<?x32x64x64xbf16>, %gl: tensor<?x32x128xf32>)
    -> (tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x64xbf16>, tensor<?x32x128xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x32x128xf32>, tensor<?x32x128xf32>, tensor<?x32x128xf32>, tensor<?x32x128xf32>, tensor<?x32xf32>, tensor<?x2xi32>)
      dt_bias(%bias : tensor<32x128xf32>) a_log(%rate : tensor<32xf32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x64xbf16>, tensor<?x32x128xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<pairwise>, gate = #k3.gate_kind<softplus>} -> tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x64xbf16>, tensor<?x32x128xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x128xbf16>, tensor<?x32x64x64xbf16>, tensor<?x32x128xf32>
}

// Gates that come as they are, narrower heads.
// CONFIG-LABEL: @given
// CONFIG: strategy = "mma", grid = [H / 1, C / 1], threads = 256
// CHECK-LABEL: .entry given(
// CHECK: griddepcontrol.wait
// CHECK-NOT: lg2.approx
// CHECK: ret;
// NVVM-LABEL: llvm.func @given(
// NVVM-DAG: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
func.func private @given(%q: tensor<?x4x64xbf16>, %k: tensor<?x4x64xbf16>, %v: tensor<?x4x128xbf16>, %g: tensor<?x4x64xf32>, %beta: tensor<?x4xf32>, %chunks: tensor<?x2xi32>, %qg: tensor<?x4x64x64xbf16>, %w: tensor<?x4x64x64xbf16>, %u: tensor<?x4x64x128xbf16>, %kd: tensor<?x4x64x64xbf16>, %aqk: tensor<?x4x64x64xbf16>, %gl: tensor<?x4x64xf32>)
    -> (tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x128xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x4x64xbf16>, tensor<?x4x64xbf16>, tensor<?x4x128xbf16>, tensor<?x4x64xf32>, tensor<?x4xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x128xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<tile_row>} -> tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x128xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x128xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64xf32>
}

// Operands by tensor maps, A from registers, the state's product with n contiguous; no copy of an operand by threads.
// CONFIG-LABEL: @scan
// CONFIG: strategy = "wgmma", grid = [V / 64, H / 1, N / 1], threads = 192, shared_bytes = 215120
// CONFIG-SAME: tensor_maps = [<0, box = [64, 64], swizzle = 128>
// CONFIG-SAME: <4, box = [64, 64], swizzle = 128>]
// CHECK-LABEL: .entry scan(
// CHECK: .param .align 64 .b8 scan_param_{{[0-9]+}}[128]
// CHECK: griddepcontrol.wait
// CHECK: mbarrier.init.shared.b64
// CHECK: fence.mbarrier_init
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}, %rd{{[0-9]+}}, 1, -1, 1, 0;
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}}, 1, 1, 1, 1;
// CHECK-DAG: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-8: cp.async.bulk.tensor.2d.shared::cluster.global
// CHECK-NOT: fence.proxy.async
// CHECK: ret;
// NVVM-LABEL: llvm.func @scan(
// NVVM-SAME: nvvm.grid_constant
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// NVVM-DAG: nvvm.cp.async.bulk.tensor.shared.cluster.global 
// NVVM-DAG: nvvm.stmatrix
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>, num = 4
func.func private @scan(%qg: tensor<?x96x64x128xbf16>, %w: tensor<?x96x64x128xbf16>, %u: tensor<?x96x64x128xbf16>, %kd: tensor<?x96x64x128xbf16>, %aqk: tensor<?x96x64x64xbf16>, %gl: tensor<?x96x128xf32>, %chunks: tensor<?x2xi32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %o: tensor<?x96x128xbf16>, %s: tensor<?x96x128x128xf32>)
    -> (tensor<?x96x128xbf16>, tensor<?x96x128x128xf32>) attributes {k3.kernel} {
  %r:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %cu, %slots : tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x128xbf16>, tensor<?x96x64x64xbf16>, tensor<?x96x128xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x96x128xbf16>, tensor<?x96x128x128xf32>) -> tensor<?x96x128xbf16>, tensor<?x96x128x128xf32>
  return %r#0, %r#1 : tensor<?x96x128xbf16>, tensor<?x96x128x128xf32>
}

// f32 outputs need two warps to store them.
// CONFIG-LABEL: @scan_to_f32
// CONFIG: strategy = "wgmma", grid = [V / 64, H / 1, N / 1], threads = 224
// CHECK-LABEL: .entry scan_to_f32(
// CHECK: griddepcontrol.wait
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n64k16
// CHECK-DAG: st.shared.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @scan_to_f32(
// NVVM-DAG: llvm.inline_asm {{.*}} "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// NVVM-DAG: nvvm.cp.async.bulk.tensor.shared.cluster.global 
func.func private @scan_to_f32(%qg: tensor<?x4x64x64xbf16>, %w: tensor<?x4x64x64xbf16>, %u: tensor<?x4x64x192xbf16>, %kd: tensor<?x4x64x64xbf16>, %aqk: tensor<?x4x64x64xbf16>, %gl: tensor<?x4x64xf32>, %chunks: tensor<?x2xi32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %o: tensor<?x4x192xf32>, %s: tensor<?x4x192x64xf32>)
    -> (tensor<?x4x192xf32>, tensor<?x4x192x64xf32>) attributes {k3.kernel} {
  %r:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %cu, %slots : tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x192xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64x64xbf16>, tensor<?x4x64xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x4x192xf32>, tensor<?x4x192x64xf32>) -> tensor<?x4x192xf32>, tensor<?x4x192x64xf32>
  return %r#0, %r#1 : tensor<?x4x192xf32>, tensor<?x4x192x64xf32>
}

// What the emitters do not take is decomposed.
// CONFIG-LABEL: @narrow
// CONFIG: strategy = "generic"
func.func private @narrow(%q: tensor<?x3x32xf32>, %k: tensor<?x3x32xf32>, %v: tensor<?x3x32xf32>, %g: tensor<?x3x32xf32>, %beta: tensor<?x3xf32>, %chunks: tensor<?x2xi32>, %qg: tensor<?x3x64x32xbf16>, %w: tensor<?x3x64x32xbf16>, %u: tensor<?x3x64x32xbf16>, %kd: tensor<?x3x64x32xbf16>, %aqk: tensor<?x3x64x64xbf16>, %gl: tensor<?x3x32xf32>)
    -> (tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x64xbf16>, tensor<?x3x32xf32>) attributes {k3.kernel} {
  %r:6 = k3.kda.chunk_prepare ins(%q, %k, %v, %g, %beta, %chunks : tensor<?x3x32xf32>, tensor<?x3x32xf32>, tensor<?x3x32xf32>, tensor<?x3x32xf32>, tensor<?x3xf32>, tensor<?x2xi32>)
      outs(%qg, %w, %u, %kd, %aqk, %gl : tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x64xbf16>, tensor<?x3x32xf32>)
      {scale = 0.125 : f64, l2norm = true, anchor = #k3.anchor<tile_row>} -> tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x64xbf16>, tensor<?x3x32xf32>
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x64xbf16>, tensor<?x3x32xf32>
}

// CONFIG-LABEL: @narrow_scan
// CONFIG: strategy = "generic"
func.func private @narrow_scan(%qg: tensor<?x3x64x32xbf16>, %w: tensor<?x3x64x32xbf16>, %u: tensor<?x3x64x32xbf16>, %kd: tensor<?x3x64x32xbf16>, %aqk: tensor<?x3x64x64xbf16>, %gl: tensor<?x3x32xf32>, %chunks: tensor<?x2xi32>, %cu: tensor<?xi32>, %slots: tensor<?xi32>, %o: tensor<?x3x32xf32>, %s: tensor<?x3x32x32xf32>)
    -> (tensor<?x3x32xf32>, tensor<?x3x32x32xf32>) attributes {k3.kernel} {
  %r:2 = k3.kda.chunk_scan ins(%qg, %w, %u, %kd, %aqk, %gl, %chunks, %cu, %slots : tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x32xbf16>, tensor<?x3x64x64xbf16>, tensor<?x3x32xf32>, tensor<?x2xi32>, tensor<?xi32>, tensor<?xi32>)
      outs(%o, %s : tensor<?x3x32xf32>, tensor<?x3x32x32xf32>) -> tensor<?x3x32xf32>, tensor<?x3x32x32xf32>
  return %r#0, %r#1 : tensor<?x3x32xf32>, tensor<?x3x32x32xf32>
}
}
