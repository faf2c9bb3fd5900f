//===- MachineLimits.cpp - what this machine can do, measured ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Plain loops over vector types, compiled for each instruction set by target
// attributes: what the compiler's kernels could reach at most.
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/MachineLimits.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace k3bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Keeps a computed value alive.
template <typename T> void keep(const T &value) { asm volatile("" : : "m"(value) : "memory"); }

/// Seconds until `work(thread)` is done on every thread.
template <typename Work> double timeThreads(unsigned threads, Work work) {
  std::vector<std::thread> pool;
  double start = now();
  for (unsigned thread = 1; thread < threads; ++thread)
    pool.emplace_back(work, thread);
  work(0u);
  for (std::thread &thread : pool)
    thread.join();
  return now() - start;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

constexpr int chains = 12; // enough independent accumulators to hide the latency of one

template <typename V> __attribute__((always_inline)) inline void fmaLoop(int64_t iterations) {
  V acc[chains], a = V{} + 0.5f, b = V{} + 0.25f;
  for (V &x : acc)
    x = V{} + 1.0f;
  for (int64_t i = 0; i < iterations; ++i) {
#pragma clang fp contract(fast)
    for (V &x : acc)
      x = x * a + b;
    asm volatile("" : : :);
  }
  for (const V &x : acc)
    keep(x);
}

#if defined(__x86_64__)
using V8 = float __attribute__((vector_size(32)));
using V16 = float __attribute__((vector_size(64)));

__attribute__((target("avx512f"), noinline)) void fma512(int64_t iterations) { fmaLoop<V16>(iterations); }
__attribute__((target("avx2,fma"), noinline)) void fma256(int64_t iterations) { fmaLoop<V8>(iterations); }

__attribute__((target("avx512f,avx512bf16"), noinline)) void dotBf16(int64_t iterations) {
  __m512 acc[chains];
  for (__m512 &x : acc)
    x = _mm512_set1_ps(1.0f);
  __m512bh a, b;
  std::memset(&a, 0x3f, sizeof a);
  std::memset(&b, 0x3e, sizeof b);
  for (int64_t i = 0; i < iterations; ++i) {
    for (__m512 &x : acc)
      x = _mm512_dpbf16_ps(x, a, b);
    asm volatile("" : "+v"(a));
  }
  for (const __m512 &x : acc)
    keep(x);
}
#endif

using V4 = float __attribute__((vector_size(16)));
__attribute__((noinline)) void fma128(int64_t iterations) { fmaLoop<V4>(iterations); }

double bestGFlops(unsigned threads, double flopsPerIteration, void (*loop)(int64_t)) {
  constexpr int64_t iterations = 4'000'000;
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    double seconds = timeThreads(threads, [&](unsigned) { loop(iterations); });
    best = std::max(best, threads * iterations * flopsPerIteration / seconds / 1e9);
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

using Words = uint64_t __attribute__((vector_size(32)));

/// Combines `streams` runs of `bytes / streams` each, in step.
template <int streams> __attribute__((always_inline)) inline void readLoop(const char *data, size_t bytes) {
  Words acc[streams] = {};
  size_t run = bytes / streams / 64 * 64;
  for (size_t i = 0; i < run; i += 64)
    for (int s = 0; s < streams; ++s) {
      Words line[2];
      std::memcpy(line, data + s * run + i, sizeof(line));
      acc[s] ^= line[0] ^ line[1];
    }
  for (const Words &x : acc)
    keep(x);
}

using ReadFn = void (*)(const char *, size_t);
template <int streams> __attribute__((noinline)) void readPlain(const char *data, size_t bytes) {
  readLoop<streams>(data, bytes);
}
#if defined(__x86_64__)
template <int streams> __attribute__((target("avx2"), noinline)) void readAvx2(const char *data, size_t bytes) {
  readLoop<streams>(data, bytes);
}
#endif

std::vector<ReadFn> readFunctions() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return {readAvx2<1>, readAvx2<4>, readAvx2<8>};
#endif
  return {readPlain<1>, readPlain<4>, readPlain<8>};
}

/// One buffer per thread, in huge pages as weights are; kept for the next measurement.
const char *readBuffer(unsigned thread, size_t bytes) {
  struct Free {
    void operator()(char *p) const { std::free(p); }
  };
  static std::vector<std::unique_ptr<char, Free>> buffers;
  constexpr size_t hugePage = size_t(2) << 20;
  while (buffers.size() <= thread) {
    auto *fresh = static_cast<char *>(std::aligned_alloc(hugePage, bytes));
    if (!fresh)
      throw std::bad_alloc();
    buffers.emplace_back(fresh);
    madvise(fresh, bytes, MADV_HUGEPAGE);
    std::memset(fresh, 1, bytes);
  }
  return buffers[thread].get();
}

double measureReadBandwidth(unsigned threads) {
  constexpr size_t bytesPerThread = size_t(256) << 20;
  std::vector<const char *> buffers;
  for (unsigned thread = 0; thread < threads; ++thread)
    buffers.push_back(readBuffer(thread, bytesPerThread));
  double best = 0;
  for (int run = 0; run < 3; ++run)
    for (ReadFn read : readFunctions()) {
      double seconds = timeThreads(threads, [&](unsigned t) { read(buffers[t], bytesPerThread); });
      best = std::max(best, double(threads) * bytesPerThread / seconds / 1e9);
    }
  return best;
}

} // namespace

MachineLimits measureMachine(unsigned threads) {
  MachineLimits limits;
  limits.readGBs = measureReadBandwidth(threads);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16"))
    limits.bf16GFlops = bestGFlops(threads, 2.0 * 32 * chains, dotBf16);
  if (__builtin_cpu_supports("avx512f")) {
    limits.f32GFlops = bestGFlops(threads, 2.0 * 16 * chains, fma512);
    return limits;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    limits.f32GFlops = bestGFlops(threads, 2.0 * 8 * chains, fma256);
    return limits;
  }
#endif
  limits.f32GFlops = bestGFlops(threads, 2.0 * 4 * chains, fma128);
  return limits;
}

} // namespace k3bench
