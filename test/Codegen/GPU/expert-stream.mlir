// RUN: k3-opt %s --k3-configure-pipeline=gpu | FileCheck %s --check-prefix=CONFIG
// RUN: k3-opt %s --k3-configure-pipeline=gpu --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-gpu-print-ptx=assemble -o /dev/null | FileCheck %s --check-prefix=ASM %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// MXFP4 experts with a gated unit: whole rows of weights by bulk copies, codes in words of 16 bytes, one multiplication per
// pair of weights (two where a scale is large).
// CONFIG-LABEL: @gated
// CONFIG: strategy = "stream", grid = [132], threads = 512, shared_bytes = 21
// CHECK-LABEL: .entry gated(
// CHECK: .maxntid 512
// CHECK: griddepcontrol.wait
// Rows of x are brought nearer at once, and copies wait for them to be asked for.
// CHECK: prefetch.global.L2
// CHECK-DAG: bar.sync 1, 96;
// CHECK-DAG: ld.shared.v4.b32
// CHECK-DAG: vote.sync.ballot.b32
// CHECK-DAG: mul.rn.bf16x2
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-DAG: ex2.approx
// CHECK-DAG: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// ASM: // gated: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @gated(
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
// NVVM-DAG: nvvm.vote.sync  ballot
func.func private @gated(%x: tensor<?x3584xf32>, %o: tensor<897xi32>, %p: tensor<?x16xi32>, %w: tensor<896x3072x1792xi8> {k3.expert_group},
    %s: tensor<896x3072x112xi8> {k3.expert_group}, %u: tensor<896x3072x1792xi8> {k3.expert_group}, %us: tensor<896x3072x112xi8> {k3.expert_group},
    %y: tensor<?x16x3072xf32>) -> tensor<?x16x3072xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<?x3584xf32>, tensor<897xi32>, tensor<?x16xi32>, tensor<896x3072x1792xi8>)
      scale(%s : tensor<896x3072x112xi8>) up_weight(%u : tensor<896x3072x1792xi8>) up_scale(%us : tensor<896x3072x112xi8>)
      outs(%y : tensor<?x16x3072xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x16x3072xf32>
  return %0 : tensor<?x16x3072xf32>
}

// bf16 experts: weights go to the product as they lie.
// CONFIG-LABEL: @floats
// CONFIG: strategy = "stream"
// CHECK-LABEL: .entry floats(
// CHECK: griddepcontrol.wait
// CHECK-DAG: ld.shared.v4.b32
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// ASM: // floats: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @floats(
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
// NVVM-DAG: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xi32>
func.func private @floats(%x: tensor<?x8x1024xbf16>, %o: tensor<257xi32>, %p: tensor<?x8xi32>, %w: tensor<256x2304x1024xbf16> {k3.expert_group},
    %y: tensor<?x8x2304xf32>) -> tensor<?x8x2304xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<?x8x1024xbf16>, tensor<257xi32>, tensor<?x8xi32>, tensor<256x2304x1024xbf16>)
      outs(%y : tensor<?x8x2304xf32>) -> tensor<?x8x2304xf32>
  return %0 : tensor<?x8x2304xf32>
}

// One matrix; tiles of long rows come in two pieces.
// CONFIG-LABEL: @matrix
// CONFIG: strategy = "stream"
// CHECK-LABEL: .entry matrix(
// CHECK: griddepcontrol.wait
// CHECK-DAG: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK-DAG: mma.sync
// ASM: // matrix: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @matrix(
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: nvvm.cp.async.bulk.shared.cluster.global 
func.func private @matrix(%x: tensor<?x7168xf32>, %w: tensor<12288x3584xi8>, %s: tensor<12288x224xi8>, %y: tensor<?x12288xf32>) -> tensor<?x12288xf32>
    attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.mx.contract ins(%x, %w, %s : tensor<?x7168xf32>, tensor<12288x3584xi8>, tensor<12288x224xi8>) outs(%y : tensor<?x12288xf32>)
      {accumulate} -> tensor<?x12288xf32>
  return %0 : tensor<?x12288xf32>
}

// Scales of eight rows are no multiple of 16 bytes: they are copied by threads.
// CONFIG-LABEL: @narrow
// CONFIG: strategy = "stream"
// CHECK-LABEL: .entry narrow(
// CHECK: griddepcontrol.wait
// CHECK-DAG: ld.global.b8
// CHECK-DAG: mma.sync
// ASM: // narrow: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
// NVVM-LABEL: llvm.func @narrow(
// NVVM-DAG: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM-DAG: llvm.load {{.*}}!llvm.ptr<1> -> i8
func.func private @narrow(%x: tensor<?x96xf32>, %o: tensor<5xi32>, %p: tensor<?x2xi32>, %w: tensor<4x16x48xi8> {k3.expert_group},
    %s: tensor<4x16x3xi8> {k3.expert_group}, %u: tensor<4x16x48xi8> {k3.expert_group}, %us: tensor<4x16x3xi8> {k3.expert_group},
    %y: tensor<?x2x16xf32>) -> tensor<?x2x16xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.latent_moe.grouped_contract ins(%x, %o, %p, %w : tensor<?x96xf32>, tensor<5xi32>, tensor<?x2xi32>, tensor<4x16x48xi8>)
      scale(%s : tensor<4x16x3xi8>) up_weight(%u : tensor<4x16x48xi8>) up_scale(%us : tensor<4x16x3xi8>)
      outs(%y : tensor<?x2x16xf32>) {activation = #k3.activation<swiglu>} -> tensor<?x2x16xf32>
  return %0 : tensor<?x2x16xf32>
}

// Both products of Kimi K3's experts: weights of the second one come in without a break, its rows of x when the counter of
// their pass says that they are there.
// CONFIG-LABEL: @mlp
// CONFIG: strategy = "stream", grid = [132], threads = 512, shared_bytes = 21
// CHECK-LABEL: .entry mlp(
// CHECK: mov.u32 %{{.*}}, %nctaid.x
// CHECK-DAG: ld.acquire.gpu.global.u32
// CHECK-DAG: red.release.gpu.global.add.u32
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-DAG: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK-NOT: .local
// ASM: // mlp: {{[0-9]+}} registers, 0 bytes spilled, 0 bytes of stack
func.func private @mlp(%x: tensor<?x3584xf32>, %o: tensor<897xi32>, %p: tensor<?x16xi32>, %w: tensor<896x3072x1792xi8> {k3.expert_group},
    %u: tensor<896x3072x1792xi8> {k3.expert_group}, %d: tensor<896x3584x1536xi8> {k3.expert_group},
    %s: tensor<896x3072x112xi8> {k3.expert_group}, %us: tensor<896x3072x112xi8> {k3.expert_group}, %ds: tensor<896x3584x96xi8> {k3.expert_group},
    %i: tensor<?x16x3072xf32>, %y: tensor<?x16x3584xf32>, %c: tensor<?x16xi32>)
    -> (tensor<?x16x3072xf32>, tensor<?x16x3584xf32>, tensor<?x16xi32>) attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0:3 = k3.latent_moe.expert_mlp ins(%x, %o, %p, %w, %u, %d : tensor<?x3584xf32>, tensor<897xi32>, tensor<?x16xi32>, tensor<896x3072x1792xi8>,
      tensor<896x3072x1792xi8>, tensor<896x3584x1536xi8>)
      scale(%s : tensor<896x3072x112xi8>) up_scale(%us : tensor<896x3072x112xi8>) down_scale(%ds : tensor<896x3584x96xi8>)
      outs(%i, %y, %c : tensor<?x16x3072xf32>, tensor<?x16x3584xf32>, tensor<?x16xi32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x16x3072xf32>, tensor<?x16x3584xf32>, tensor<?x16xi32>
  return %0#0, %0#1, %0#2 : tensor<?x16x3072xf32>, tensor<?x16x3584xf32>, tensor<?x16xi32>
}
}
