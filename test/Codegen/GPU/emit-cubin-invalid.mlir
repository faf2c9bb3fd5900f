// REQUIRES: ptxas
// RUN: k3-opt %s --k3-emit-binaries --split-input-file --verify-diagnostics -o /dev/null
// A kernel of an emitter that spills or whose wgmma are serialised fails the build; a decomposed one may.

#gpu = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">
module attributes {k3.target = #gpu} {
module @gpu attributes {k3.target = #gpu} {
// 64 registers for each of 1024 threads.
// expected-error @+1 {{kernel 'spills' of strategy "row" spills registers: }}
llvm.func @spills(%x: !llvm.ptr<1>) attributes {k3.kernel, k3.strategy = "row", nvvm.kernel, nvvm.maxntid = array<i32: 1024>} {
  %0 = llvm.load volatile %x {alignment = 16 : i64} : !llvm.ptr<1> -> vector<96xf32>
  nvvm.barrier0
  %1 = llvm.fadd %0, %0 : vector<96xf32>
  llvm.store volatile %1, %x {alignment = 16 : i64} : vector<96xf32>, !llvm.ptr<1>
  llvm.return
}
}
k3.exec.kernel @spills in @gpu[0] from "" launch <threads = 1024>
}

// -----

#gpu = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">
module attributes {k3.target = #gpu} {
module @gpu attributes {k3.target = #gpu} {
llvm.func @spills(%x: !llvm.ptr<1>) attributes {k3.kernel, k3.strategy = "generic", nvvm.kernel, nvvm.maxntid = array<i32: 1024>} {
  %0 = llvm.load volatile %x {alignment = 16 : i64} : !llvm.ptr<1> -> vector<96xf32>
  nvvm.barrier0
  %1 = llvm.fadd %0, %0 : vector<96xf32>
  llvm.store volatile %1, %x {alignment = 16 : i64} : vector<96xf32>, !llvm.ptr<1>
  llvm.return
}
}
k3.exec.kernel @spills in @gpu[0] from "" launch <threads = 1024>
}

// -----

#gpu = #k3.target<arch = "nvidia", cpu = "sm_90a", features = "+ptx86">
module attributes {k3.target = #gpu} {
module @gpu attributes {k3.target = #gpu} {
// The sums of a product that may still be at work are read.
// expected-error @+1 {{kernel 'serialised' of strategy "gemm" loses speed: }}
llvm.func @serialised(%x: !llvm.ptr<1>, %a: i64, %b: i64) attributes {k3.kernel, k3.strategy = "gemm", nvvm.kernel, nvvm.maxntid = array<i32: 128>} {
  %zero = llvm.mlir.constant(0.0 : f32) : f32
  nvvm.wgmma.fence.aligned
  %0 = llvm.inline_asm has_side_effects asm_dialect = att "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, $4, $5, 1, 1, 1, 0, 0;", "=f,=f,=f,=f,l,l,0,1,2,3" %a, %b, %zero, %zero, %zero, %zero : (i64, i64, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  nvvm.wgmma.commit.group.sync.aligned
  %1 = llvm.extractvalue %0[0] : !llvm.struct<(f32, f32, f32, f32)>
  llvm.store volatile %1, %x : f32, !llvm.ptr<1>
  nvvm.wgmma.wait.group.sync.aligned 0
  llvm.return
}
}
k3.exec.kernel @serialised in @gpu[0] from "" launch <threads = 128>
}
