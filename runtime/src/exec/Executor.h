//===- Executor.h - runs programs ----------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_EXEC_EXECUTOR_H
#define K3RT_EXEC_EXECUTOR_H

#include "runtime/src/exec/Program.h"

namespace k3rt {

/// Looks at what a run has computed so far.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  /// After every group; group.endsLayer says where a layer is complete.
  virtual void afterGroup(const Program &program, const GroupCode &group) = 0;
};

/// Runs the groups of a program one after the other, the dispatches of a group
/// at the same time.
class Executor {
public:
  /// `threads` outlives the executor. Error: K3RT_OUT_OF_MEMORY for scratch
  /// memory of `scratchPerThread` bytes, a multiple of 64.
  Status init(ThreadPool &threads, uint64_t scratchPerThread);

  void setTrace(k3rt_trace_fn fn, void *user) {
    trace = fn;
    traceUser = user;
  }

  /// See k3rt_set_profile.
  void setProfile(k3rt_profile_fn fn, void *user, bool eachDispatch) {
    profile = fn;
    profileUser = user;
    profileDispatches = eachDispatch;
  }

  /// Fills the scratch memory of all threads with NaN.
  void poisonScratch();

  /// Runs a bound program, without its epilogue unless `withLogits`. Error:
  /// K3RT_INTERNAL when a kernel fails, naming kernel, dispatch and layer;
  /// states may have changed by then.
  Status run(const Program &program, bool withLogits,
             RunObserver *observer = nullptr);

private:
  struct Job;

  /// Runs tiles [first, last) of a group.
  Status runGroup(const Program &program, const GroupCode &group,
                  uint32_t first, uint32_t last);
  Status runProfiled(const Program &program, const GroupCode &group);
  static void runTiles(Job &job, uint32_t first, uint32_t last,
                       uint32_t thread);
  void traceGroup(const Program &program, const GroupCode &group) const;
  void traceLayer(const Program &program, int32_t layer) const;

  ThreadPool *threads = nullptr;
  Allocation scratch;
  uint64_t scratchStride = 0;
  k3rt_trace_fn trace = nullptr;
  void *traceUser = nullptr;
  k3rt_profile_fn profile = nullptr;
  void *profileUser = nullptr;
  bool profileDispatches = false;
};

} // namespace k3rt

#endif // K3RT_EXEC_EXECUTOR_H
