//===- Executor.h - runs programs ----------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_EXEC_EXECUTOR_H
#define K3RT_EXEC_EXECUTOR_H

#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/exec/Program.h"

namespace k3rt {

/// Looks at what a run has computed so far, on the CPU.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  /// After every group; group.endsLayer says where a layer is complete.
  virtual void afterGroup(const Program &program, const GroupCode &group) = 0;
};

/// Runs the groups of a program one after the other, the dispatches of a group at the same time, on one device. What is
/// special about a device is in the classes derived from this one.
class Executor {
public:
  virtual ~Executor() = default;
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Loads the kernels for the device. Errors: K3RT_UNSUPPORTED when it cannot run them, K3RT_BAD_ARTIFACT when they
  /// are damaged, K3RT_IO_ERROR, K3RT_OUT_OF_MEMORY.
  virtual Status load(const Artifact &artifact) = 0;
  /// Gets ready to run `program`, which is bound and outlives the executor. Error: K3RT_BAD_ARTIFACT when a kernel does
  /// not take what a dispatch gives it.
  virtual Status prepare(const Program &program) = 0;

  /// Fills memory that kernels use for themselves with NaN.
  virtual void poison() = 0;

  /// Who does products of matrices, for people.
  virtual std::string productsText() const { return "own kernels"; }

  /// Runs a bound program, without its epilogue unless `withLogits`; on a GPU it has happened after Device::finish().
  /// Error: K3RT_INTERNAL when a kernel fails, naming kernel, dispatch and layer; states may have changed by then.
  virtual Status run(const Program &program, bool withLogits, RunObserver *observer) = 0;

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

protected:
  explicit Executor(Device &device) : device(device) {}

  bool traces() const { return trace != nullptr; }
  /// Shows what a group has written. Error: the device's failure.
  Status traceGroup(const Program &program, const GroupCode &group);

  enum class Profiling : uint8_t { off, groups, dispatches };
  Profiling profiling() const {
    return !profile ? Profiling::off : profileDispatches ? Profiling::dispatches : Profiling::groups;
  }
  /// `dispatch`: position in the group; -1 for the whole group.
  void reportTime(const Program &program, const GroupCode &group, int32_t dispatch, double seconds) const;

  /// "kernel 'x'" and " (layer 3, dispatch 'y')" of messages.
  static std::string kernelText(const DispatchCode &code);
  static std::string placeText(const DispatchCode &code);

private:
  Status traceBuffer(const void *data, k3rt_trace_event &event);
  Status traceLayer(const Program &program, int32_t layer);

  Device &device;
  k3rt_trace_fn trace = nullptr;
  void *traceUser = nullptr;
  std::vector<char> traced; ///< a copy, where the host cannot look
  k3rt_profile_fn profile = nullptr;
  void *profileUser = nullptr;
  bool profileDispatches = false;
};

} // namespace k3rt

#endif // K3RT_EXEC_EXECUTOR_H
