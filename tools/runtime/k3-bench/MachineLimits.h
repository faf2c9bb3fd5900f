//===- MachineLimits.h - what this machine can do, measured --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_MACHINELIMITS_H
#define K3_TOOLS_K3BENCH_MACHINELIMITS_H

namespace k3bench {

/// Each is the best of several short runs on `threads` threads; together they take some 0.2 s.
struct MachineLimits {
  double readGBs = 0;    ///< reading memory that is far larger than the caches
  double f32GFlops = 0;  ///< f32 fused multiply-add, widest vectors
  double bf16GFlops = 0; ///< bf16 pair products into f32 (vdpbf16ps); 0 where the CPU has none

  double bestGFlops() const { return f32GFlops > bf16GFlops ? f32GFlops : bf16GFlops; }
};

MachineLimits measureMachine(unsigned threads);

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_MACHINELIMITS_H
