//===- HostExecutor.h - runs programs on the CPU -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_EXEC_HOSTEXECUTOR_H
#define K3RT_EXEC_HOSTEXECUTOR_H

#include "runtime/src/artifact/Executable.h"
#include "runtime/src/base/ThreadPool.h"
#include "runtime/src/exec/Executor.h"

namespace k3rt {

/// The tiles of all dispatches of a group are one parallel loop.
class HostExecutor : public Executor {
public:
  /// `device` and `threads` outlive the executor; `scratchPerThread` is a multiple of 64.
  HostExecutor(Device &device, ThreadPool &threads, uint64_t scratchPerThread)
      : Executor(device), threads(threads), scratchStride(scratchPerThread) {}

  Status load(const Artifact &artifact) override;
  Status prepare(const Program &) override { return Status(); }
  void poison() override;
  Status run(const Program &program, bool withLogits, RunObserver *observer) override;

private:
  struct Job;

  /// Runs tiles [first, last) of a group.
  Status runGroup(const Program &program, const GroupCode &group, uint32_t first, uint32_t last);
  Status runProfiled(const Program &program, const GroupCode &group);
  static void runTiles(Job &job, uint32_t first, uint32_t last, uint32_t thread);

  ThreadPool &threads;
  KernelTable kernels;
  Allocation scratch;
  uint64_t scratchStride;
};

} // namespace k3rt

#endif // K3RT_EXEC_HOSTEXECUTOR_H
