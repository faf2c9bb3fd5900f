// RUN: k3-opt %s --k3-configure-pipeline=gpu -o %t.config.mlir
// RUN: FileCheck %s --check-prefix=CONFIG < %t.config.mlir
// RUN: k3-opt %t.config.mlir --k3-kernels-pipeline=gpu -o %t.kernels.mlir
// RUN: FileCheck %s --check-prefix=NVVM --implicit-check-not=llvm.alloca < %t.kernels.mlir
// RUN: k3-opt %t.kernels.mlir --k3-gpu-print-ptx -o /dev/null | FileCheck %s --implicit-check-not=.local
// No spills: a kernel of an emitter that spills is an error.
// RUN: %if ptxas %{ k3-opt %t.kernels.mlir --k3-binaries-pipeline -o /dev/null %}

module attributes {k3.target = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">} {

// 16 rows of the weight per block of eight slices: two 16-byte loads per step of 32 and warp, four steps ahead. The f32
// inputs are three bf16 terms: six products per step.
// CONFIG-LABEL: @linear
// CONFIG: strategy = "gemv", grid = [n / 16], threads = 256,
// CHECK-LABEL: .entry linear(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: cvt.rn.bf16x2.f32
// CHECK-COUNT-6: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: bar.sync
// CHECK: st.global.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @linear(
// NVVM-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: nvvm.convert.f32x2.to.bf16x2
// NVVM: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @linear(%x: tensor<?x2304xf32>, %w: tensor<4096x2304xbf16>, %y: tensor<?x4096xf32>) -> tensor<?x4096xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.linear ins(%x, %w : tensor<?x2304xf32>, tensor<4096x2304xbf16>) outs(%y : tensor<?x4096xf32>) -> tensor<?x4096xf32>
  return %0 : tensor<?x4096xf32>
}

// Long sums, into a slot of the stream.
// CONFIG-LABEL: @residual
// CONFIG: strategy = "gemv", grid = [n / 16], threads = 256,
// CHECK-LABEL: .entry residual(
// CHECK: griddepcontrol.wait
// CHECK: mma.sync
// CHECK: ld.global.b32
// CHECK: st.global.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @residual(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @residual(%x: tensor<?x33792xf32>, %w: tensor<7168x33792xbf16>, %i: index, %s: tensor<9x?x7168xf32>) -> tensor<9x?x7168xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %c0 = arith.constant 0 : index
  %T = tensor.dim %x, %c0 : tensor<?x33792xf32>
  %o = tensor.extract_slice %s[%i, 0, 0] [1, %T, 7168] [1, 1, 1] : tensor<9x?x7168xf32> to tensor<?x7168xf32>
  %0 = k3.linear ins(%x, %w : tensor<?x33792xf32>, tensor<7168x33792xbf16>) outs(%o : tensor<?x7168xf32>) {accumulate} -> tensor<?x7168xf32>
  %1 = tensor.insert_slice %0 into %s[%i, 0, 0] [1, %T, 7168] [1, 1, 1] : tensor<?x7168xf32> into tensor<9x?x7168xf32>
  return %1 : tensor<9x?x7168xf32>
}

// More than eight rows of a bf16 x are copied to shared memory, of which the last two pieces may still be on their way; the
// weight stays a matter of registers. There is nothing to round.
// CONFIG-LABEL: @batch
// CONFIG: strategy = "gemv", grid = [n / 16], threads = 256, shared_bytes = 32768>
// CHECK-LABEL: .entry batch(
// CHECK: griddepcontrol.wait
// CHECK: mma.sync
// CHECK: cp.async.cg.shared.global
// CHECK: cp.async.wait_group 2
// CHECK: bar.sync
// CHECK-NOT: cvt.rn.bf16x2.f32
// CHECK: ld.shared.v4.b32
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: ret;
// NVVM-LABEL: llvm.func @batch(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM: nvvm.cp.async.shared.global {{.*}}, 16, cache =  cg
// NVVM: nvvm.cp.async.wait.group 2
func.func private @batch(%x: tensor<?x7168xbf16>, %w: tensor<12288x7168xbf16>, %y: tensor<?x12288xf32>) -> tensor<?x12288xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.linear ins(%x, %w : tensor<?x7168xbf16>, tensor<12288x7168xbf16>) outs(%y : tensor<?x12288xf32>) {bf16_x} -> tensor<?x12288xf32>
  return %0 : tensor<?x12288xf32>
}

// f32 weights are not for tensor cores.
// CONFIG-LABEL: @dot
// CONFIG: strategy = "dot", grid = [n / 16, T / 256], threads = 256>
// CHECK-LABEL: .entry dot(
// CHECK: griddepcontrol.wait
// CHECK-NOT: mma
// CHECK: ld.global.v4.b32
// CHECK: fma.rn.f32
// CHECK: shfl.sync.bfly
// CHECK: ret;
// NVVM-LABEL: llvm.func @dot(
// NVVM-NOT: mma
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// NVVM-NOT: mma
// NVVM: llvm.return
func.func private @dot(%x: tensor<?x2304xf32>, %w: tensor<256x2304xf32>, %y: tensor<?x256xf32>) -> tensor<?x256xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.linear ins(%x, %w : tensor<?x2304xf32>, tensor<256x2304xf32>) outs(%y : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %0 : tensor<?x256xf32>
}

// Rows of the matrix are paired in registers, because the sum goes over them.
// CONFIG-LABEL: @absorb
// CONFIG: strategy = "few", grid = [T / 16, l / 128, H / 1], threads = 256, shared_bytes = 24576>
// CHECK-LABEL: .entry absorb(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: prmt.b32
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @absorb(
// NVVM-COUNT-4: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: llvm.nvvm.prmt
// NVVM: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @absorb(%q: tensor<?x32x192xf32>, %w: tensor<32x256x512xbf16>, %y: tensor<?x32x576xf32>) -> tensor<?x32x576xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.mla.absorb ins(%q, %w : tensor<?x32x192xf32>, tensor<32x256x512xbf16>) outs(%y : tensor<?x32x576xf32>) {nope = 128 : i64} -> tensor<?x32x576xf32>
  return %0 : tensor<?x32x576xf32>
}
// CONFIG-LABEL: @absorb_prefill
// CONFIG: strategy = "many", grid = [T / 64, l / 128, H / 1], threads = 256>
// CHECK-LABEL: .entry absorb_prefill(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-16: ld.global.v4.b32
// CHECK: prmt.b32
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: st.global.v4.b32
// CHECK: ret;
// NVVM-LABEL: llvm.func @absorb_prefill(
// NVVM: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: llvm.nvvm.prmt
// NVVM-COUNT-192: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
func.func private @absorb_prefill(%q: tensor<?x32x192xf32>, %w: tensor<32x256x512xbf16>, %y: tensor<?x32x576xf32>) -> tensor<?x32x576xf32> attributes {k3.kernel} {
  %0 = k3.mla.absorb ins(%q, %w : tensor<?x32x192xf32>, tensor<32x256x512xbf16>) outs(%y : tensor<?x32x576xf32>) {nope = 128 : i64} -> tensor<?x32x576xf32>
  return %0 : tensor<?x32x576xf32>
}

// CONFIG-LABEL: @expand
// CONFIG: strategy = "few", grid = [v / 16, H / 1], threads = 128,
// CHECK-LABEL: .entry expand(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: mma.sync
// CHECK: ret;
// NVVM-LABEL: llvm.func @expand(
// NVVM-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @expand(%x: tensor<?x32x512xf32>, %w: tensor<32x256x512xbf16>, %y: tensor<?x32x128xf32>) -> tensor<?x32x128xf32> attributes {k3.kernel, k3.phase = #k3.phase<decode>} {
  %0 = k3.mla.expand ins(%x, %w : tensor<?x32x512xf32>, tensor<32x256x512xbf16>) outs(%y : tensor<?x32x128xf32>) {nope = 128 : i64} -> tensor<?x32x128xf32>
  return %0 : tensor<?x32x128xf32>
}
// CONFIG-LABEL: @expand_prefill
// CONFIG: strategy = "many", grid = [v / 128, H / 1, T / 128], threads = 256,
// CHECK-LABEL: .entry expand_prefill(
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: ld.global.v4.b32
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: ret;
// NVVM-LABEL: llvm.func @expand_prefill(
// NVVM-COUNT-8: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4x
// NVVM: nvvm.mma.sync {{.*}}#nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @expand_prefill(%x: tensor<?x32x512xf32>, %w: tensor<32x256x512xbf16>, %y: tensor<?x32x128xf32>) -> tensor<?x32x128xf32> attributes {k3.kernel} {
  %0 = k3.mla.expand ins(%x, %w : tensor<?x32x512xf32>, tensor<32x256x512xbf16>) outs(%y : tensor<?x32x128xf32>) {nope = 128 : i64} -> tensor<?x32x128xf32>
  return %0 : tensor<?x32x128xf32>
}
}
