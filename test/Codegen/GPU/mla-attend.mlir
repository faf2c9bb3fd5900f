// RUN: k3-opt %s --k3-configure-pipeline=gpu | FileCheck %s --check-prefix=CONFIG
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu --k3-gpu-print-ptx -o %t.mlir | FileCheck %s --implicit-check-not=.local
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.mlir
// RUN: %if ptxas %{ k3-opt %t.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// The widths of the published models. 16 heads of a token are 16 query rows; their f32 values are three bf16 each.
// CONFIG-LABEL: @wide
// CONFIG: strategy = "rows", grid = [T / 1, H / 16], threads = 256, shared_bytes = {{[0-9]+}}>
// CHECK-LABEL: .entry wide(
// CHECK: .maxntid 256
// CHECK: griddepcontrol.wait
// CHECK: mbarrier.init.shared
// CHECK: ld.global.v4
// Rows of the cache come in bulk; 36 steps of 16 columns are 9 for each of four warps.
// CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: mbarrier.try_wait.parity
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-COUNT-108: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: ex2.approx.ftz.f32
// Two steps of 16 cache rows, 16 blocks of 8 latent columns for each warp, three terms.
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-COUNT-96: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-NOT: mma.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @wide(
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
func.func private @wide(%q: tensor<?x32x576xf32>, %cache: tensor<?x64x576xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                        %table: tensor<?x?xi32>, %out: tensor<?x32x512xf32>) -> tensor<?x32x512xf32>
    attributes {k3.kernel, k3.phase = #k3.phase<prefill>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table
      : tensor<?x32x576xf32>, tensor<?x64x576xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x32x512xf32>) {scale = 0.07 : f64} -> tensor<?x32x512xf32>
  return %0 : tensor<?x32x512xf32>
}

// Few heads: several tokens share a block in prefill, not in decoding, where each has its own sequence.
// CONFIG-LABEL: @few_heads
// CONFIG: strategy = "rows", grid = [T / 5, H / 3]
// CHECK-LABEL: .entry few_heads(
// CHECK: griddepcontrol.wait
// CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: ret;
// NVVM-LABEL: llvm.func @few_heads(
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @few_heads(%q: tensor<?x3x80xf32>, %cache: tensor<?x16x80xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                             %table: tensor<?x?xi32>, %out: tensor<?x3x64xf32>) -> tensor<?x3x64xf32>
    attributes {k3.kernel, k3.phase = #k3.phase<prefill>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table
      : tensor<?x3x80xf32>, tensor<?x16x80xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x3x64xf32>) {scale = 0.07 : f64} -> tensor<?x3x64xf32>
  return %0 : tensor<?x3x64xf32>
}

// CONFIG-LABEL: @step
// CONFIG: strategy = "step", grid = [T / 1, H / 3]
// CHECK-LABEL: .entry step(
// CHECK: griddepcontrol.wait
// CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: ret;
// NVVM-LABEL: llvm.func @step(
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @step(%q: tensor<?x3x80xf32>, %cache: tensor<?x16x80xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                        %table: tensor<?x?xi32>, %out: tensor<?x3x64xf32>) -> tensor<?x3x64xf32>
    attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table
      : tensor<?x3x80xf32>, tensor<?x16x80xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x3x64xf32>) {scale = 0.07 : f64} -> tensor<?x3x64xf32>
  return %0 : tensor<?x3x64xf32>
}

// Rounded inputs: one term, and room for twice the heads.
// CONFIG-LABEL: @rounded
// CONFIG: strategy = "rows", grid = [T / 1, H / 32]
// CHECK-LABEL: .entry rounded(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-72: mma.sync
// CHECK: ex2.approx
// CHECK-COUNT-64: mma.sync
// CHECK-NOT: mma.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @rounded(
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<col>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @rounded(%q: tensor<?x32x576xf32>, %cache: tensor<?x64x576xbf16>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                           %table: tensor<?x?xi32>, %out: tensor<?x32x512xf32>) -> tensor<?x32x512xf32>
    attributes {k3.kernel, k3.phase = #k3.phase<prefill>} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table
      : tensor<?x32x576xf32>, tensor<?x64x576xbf16>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x32x512xf32>) {scale = 0.07 : f64, bf16_x} -> tensor<?x32x512xf32>
  return %0 : tensor<?x32x512xf32>
}

// Decoding by parts: blocks with the same run beside each other.
// CONFIG-LABEL: @partial
// CONFIG: strategy = "runs", grid = [H / 16, R / 1], threads = 256
// CHECK-LABEL: .entry partial(
// CHECK: griddepcontrol.wait
// CHECK: cp.async.bulk
// CHECK: mma.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @partial(
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: nvvm.ldmatrix {{.*}}layout = #nvvm.mma_layout<row>, num = 4
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @partial(%q: tensor<?x32x576xf32>, %cache: tensor<?x64x576xbf16>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                           %out: tensor<?x32x512xf32>, %parts: tensor<66x2x32x512xf32>, %states: tensor<66x2x32x2xf32>)
    -> (tensor<?x32x512xf32>, tensor<66x2x32x512xf32>, tensor<66x2x32x2xf32>) attributes {k3.kernel} {
  %0:3 = k3.mla.attend_partial ins(%q, %cache, %lengths, %table
      : tensor<?x32x576xf32>, tensor<?x64x576xbf16>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out, %parts, %states : tensor<?x32x512xf32>, tensor<66x2x32x512xf32>, tensor<66x2x32x2xf32>)
      {scale = 0.07 : f64, tile = 32 : i64} -> tensor<?x32x512xf32>, tensor<66x2x32x512xf32>, tensor<66x2x32x2xf32>
  return %0#0, %0#1, %0#2 : tensor<?x32x512xf32>, tensor<66x2x32x512xf32>, tensor<66x2x32x2xf32>
}

// CONFIG-LABEL: @merge
// CONFIG: strategy = "columns", grid = [N / 1, H / 1, l / 128], threads = 256
// CHECK-LABEL: .entry merge(
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4
// CHECK: st.global.v4
// CHECK: ret;
// NVVM-LABEL: llvm.func @merge(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @merge(%parts: tensor<66x2x32x512xf32>, %states: tensor<66x2x32x2xf32>, %lengths: tensor<?xi32>,
                         %out: tensor<?x32x512xf32>) -> tensor<?x32x512xf32> attributes {k3.kernel} {
  %0 = k3.mla.attend_merge ins(%parts, %states, %lengths : tensor<66x2x32x512xf32>, tensor<66x2x32x2xf32>, tensor<?xi32>)
      outs(%out : tensor<?x32x512xf32>) {tile = 32 : i64} -> tensor<?x32x512xf32>
  return %0 : tensor<?x32x512xf32>
}

// Tensor cores do not take f32: decomposed.
// CONFIG-LABEL: @f32_cache
// CONFIG: strategy = "generic"
func.func private @f32_cache(%q: tensor<?x3x80xf32>, %cache: tensor<?x16x80xf32>, %cu: tensor<?xi32>, %lengths: tensor<?xi32>,
                             %table: tensor<?x?xi32>, %out: tensor<?x3x64xf32>) -> tensor<?x3x64xf32> attributes {k3.kernel} {
  %0 = k3.mla.attend ins(%q, %cache, %cu, %lengths, %table
      : tensor<?x3x80xf32>, tensor<?x16x80xf32>, tensor<?xi32>, tensor<?xi32>, tensor<?x?xi32>)
      outs(%out : tensor<?x3x64xf32>) {scale = 0.07 : f64} -> tensor<?x3x64xf32>
  return %0 : tensor<?x3x64xf32>
}
}
