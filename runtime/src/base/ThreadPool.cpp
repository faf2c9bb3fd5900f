//===- ThreadPool.cpp - runs short parallel loops ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/ThreadPool.h"
#include "runtime/src/base/Process.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace k3rt {

/// How long a thread burns its core before it sleeps. Longer than the gap
/// between two groups of a step, shorter than a scheduler time slice.
static constexpr double spinSeconds = 100e-6;

static void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  static_assert(sizeof(word) == 4, "a futex is 32 bits");
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

static void futexWake(std::atomic<uint32_t> &word, int howMany) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, howMany, nullptr, nullptr, 0);
}

/// Polls `ready` until it holds or the spin time is over.
template <typename Ready> static bool spinUntil(Ready ready) {
  constexpr int polls = 64;
  double end = 0;
  for (;;) {
    for (int i = 0; i < polls; ++i) {
      if (ready())
        return true;
      pauseCpu();
    }
    double now = secondsNow();
    if (end == 0)
      end = now + spinSeconds;
    else if (now >= end)
      return false;
  }
}

Status ThreadPool::start(uint32_t threads) {
  shares.reset(new Share[threads]);
  numThreads = threads;
  for (uint32_t thread = 1; thread < threads; ++thread) {
    auto worker = std::make_unique<Worker>();
    worker->pool = this;
    worker->thread = thread;
    int error =
        pthread_create(&worker->handle, nullptr, workerMain, worker.get());
    if (error != 0) {
      stop();
      return makeError(K3RT_OUT_OF_MEMORY, "cannot start thread %u of %u: %s",
                       thread + 1, threads, strerror(error));
    }
    workers.push_back(std::move(worker));
  }
  return Status();
}

void ThreadPool::stop() {
  stopping.store(true);
  announced.fetch_add(1);
  futexWake(announced, INT_MAX);
  for (auto &worker : workers)
    pthread_join(worker->handle, nullptr);
  workers.clear();
  numThreads = 1;
  stopping.store(false);
}

void *ThreadPool::workerMain(void *argument) {
  auto *worker = static_cast<Worker *>(argument);
  worker->pool->workerLoop(worker->thread);
  return nullptr;
}

void ThreadPool::workerLoop(uint32_t thread) {
  for (;;) {
    uint32_t seen = announced.load();
    if (stopping.load())
      return;
    if (!takePiece(thread))
      waitForLoop(thread, seen);
  }
}

void ThreadPool::waitForLoop(uint32_t thread, uint32_t seen) {
  bool fresh = spinUntil(
      [&] { return announced.load(std::memory_order_acquire) != seen; });
  if (fresh)
    return;
  // The announcing thread changes `announced` and then looks at `sleepers`;
  // this one does the opposite, so that one of the two notices.
  sleepers.fetch_add(1);
  while (announced.load() == seen)
    futexWait(announced, seen);
  sleepers.fetch_sub(1);
  // The system likes to wake a thread on the core of the one that woke it, and
  // takes up to 100 ms to find that two busy threads share it.
  leaveCore(wakingCore.load(), thread);
}

/// One piece: of the thread's own share, in order, or of another one's, from
/// its end, which is where that thread comes last. Only of one loop: when the
/// next one begins meanwhile, there is a share of one's own again.
bool ThreadPool::takePiece(uint32_t thread) {
  uint64_t own = shares[thread].left.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < threads(); ++i)
    if (takeFrom((thread + i) % threads(), thread, uint32_t(own >> 32)))
      return true;
  return false;
}

bool ThreadPool::takeFrom(uint32_t share, uint32_t thread, uint32_t loop) {
  std::atomic<uint64_t> &left = shares[share].left;
  uint64_t claim = left.load(std::memory_order_acquire);
  for (;;) {
    auto first = uint32_t(claim >> 16 & UINT16_MAX);
    auto end = uint32_t(claim & UINT16_MAX);
    if (first >= end || uint32_t(claim >> 32) != loop)
      return false;
    Body run = body.load(std::memory_order_acquire);
    void *with = context.load(std::memory_order_acquire);
    uint32_t items = count.load(std::memory_order_acquire);
    uint32_t size = piece.load(std::memory_order_acquire);
    bool own = share == thread;
    uint64_t next = own ? claim + (1 << 16) : claim - 1;
    if (!left.compare_exchange_weak(claim, next, std::memory_order_acq_rel,
                                    std::memory_order_acquire))
      continue;
    uint32_t begin = (own ? first : end - 1) * size;
    uint32_t last = items - begin > size ? begin + size : items;
    run(with, begin, last, thread);
    uint32_t done = finished.fetch_add(last - begin) + (last - begin);
    if (done == items && callerSleeps.load())
      futexWake(finished, 1);
    return true;
  }
}

void ThreadPool::parallelFor(uint32_t items, Body run, void *with) {
  if (items == 0)
    return;
  if (threads() == 1 || items == 1) {
    run(with, 0, items, 0);
    return;
  }
  // Small enough that uneven items even out; what is one's own is claimed at
  // little cost.
  constexpr uint32_t piecesPerThread = 32;
  uint32_t size = std::max({1u, items / (threads() * piecesPerThread),
                            items / UINT16_MAX + 1});
  uint32_t pieces = (items - 1) / size + 1;
  body.store(run, std::memory_order_release);
  context.store(with, std::memory_order_release);
  piece.store(size, std::memory_order_release);
  count.store(items, std::memory_order_release);
  finished.store(0, std::memory_order_relaxed);
  ++loops;
  for (uint64_t i = 0; i < threads(); ++i) {
    uint64_t first = pieces * i / threads(), end = pieces * (i + 1) / threads();
    shares[i].left.store(uint64_t(loops) << 32 | first << 16 | end,
                         std::memory_order_release);
  }
  announced.fetch_add(1);
  if (sleepers.load() != 0) {
    wakingCore.store(currentCore());
    futexWake(announced, int(std::min<uint32_t>(items - 1, INT_MAX)));
  }

  while (takePiece(0)) {
  }
  auto allDone = [&] {
    return finished.load(std::memory_order_acquire) == items;
  };
  if (!spinUntil(allDone)) {
    callerSleeps.store(true);
    for (uint32_t done = finished.load(); done != items; done = finished.load())
      futexWait(finished, done);
    callerSleeps.store(false);
  }
}

} // namespace k3rt
