//===- ThreadPool.h - runs short parallel loops --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Made for many loops of a few microseconds in a row: workers spin for a short
// time between loops and sleep on a futex afterwards, the calling thread works
// too, and a loop is over when its last item is, whether or not every worker
// noticed it. A thread begins with the same share of the items every time, so
// that what it left in its caches is there again when a loop comes back, and
// takes from the shares of others only when its own is empty.
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_THREADPOOL_H
#define K3RT_BASE_THREADPOOL_H

#include "runtime/src/base/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <pthread.h>
#include <vector>

namespace k3rt {

class ThreadPool {
public:
  /// Runs items [first, last) of a loop on thread `thread` in [0, threads()).
  using Body = void (*)(void *context, uint32_t first, uint32_t last,
                        uint32_t thread);

  ThreadPool() = default;
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// `threads` >= 1 counts the calling thread. Error: K3RT_OUT_OF_MEMORY.
  Status start(uint32_t threads);
  void stop();
  uint32_t threads() const { return numThreads; }

  /// Calls body on all of [0, count), in pieces, and returns when all are done.
  /// Everything before the call is visible to the pieces, and everything they
  /// did is visible after it. Only one thread may call it, and not from a body.
  void parallelFor(uint32_t count, Body body, void *context);

  /// parallelFor with a callable (uint32_t first, uint32_t last, uint32_t
  /// thread).
  template <typename Callable>
  void parallelFor(uint32_t count, Callable &&callable) {
    parallelFor(
        count,
        [](void *context, uint32_t first, uint32_t last, uint32_t thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(
              first, last, thread);
        },
        &callable);
  }

private:
  struct Worker {
    ThreadPool *pool;
    uint32_t thread;
    pthread_t handle;
  };

  static void *workerMain(void *argument);
  void workerLoop(uint32_t thread);
  bool takePiece(uint32_t thread);
  bool takeFrom(uint32_t share, uint32_t thread, uint32_t loop);
  void waitForLoop(uint32_t thread, uint32_t seen);

  /// What is left of a thread's share of a loop: the number of the loop (32
  /// bits), the first piece left and the one behind the last (16 bits each).
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};
  };

  std::vector<std::unique_ptr<Worker>> workers;
  /// With the calling one; what workers read does not change while they run.
  uint32_t numThreads = 1;
  std::unique_ptr<Share[]> shares{new Share[1]}; ///< of the threads
  uint32_t loops = 0;

  // The loop being run. They change only while all shares are empty, so a
  // worker that mixes two loops cannot claim a piece.
  std::atomic<Body> body{nullptr};
  std::atomic<void *> context{nullptr};
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> piece{1};

  /// Items of the loop that are finished.
  alignas(64) std::atomic<uint32_t> finished{0};
  std::atomic<bool> callerSleeps{false};
  /// Number of the loop again: what sleeping workers wait on.
  alignas(64) std::atomic<uint32_t> announced{0};
  std::atomic<uint32_t> sleepers{0};
  /// Where the thread was that woke them last.
  std::atomic<int> wakingCore{-1};
  std::atomic<bool> stopping{false};
};

} // namespace k3rt

#endif // K3RT_BASE_THREADPOOL_H
