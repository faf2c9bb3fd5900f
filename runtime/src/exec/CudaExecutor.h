//===- CudaExecutor.h - runs programs on an NVIDIA GPU -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_EXEC_CUDAEXECUTOR_H
#define K3RT_EXEC_CUDAEXECUTOR_H

#include "runtime/src/device/CudaBlas.h"
#include "runtime/src/device/CudaKernels.h"
#include "runtime/src/exec/Executor.h"

#include <memory>

namespace k3rt {

/// Launches dispatch after dispatch; a decode program is captured as a graph once per size of a step, the dispatches of
/// a group side by side. Every parameter of a launch is a function of that size, so a graph can be launched again
/// whenever the size is its own. Profiles of decode are taken inside of a graph, too, so that they tell of kernels that
/// follow each other as fast as in a step, not of the time between launches.
///
/// In decode, a kernel that waits for the one in front of it by itself (Launch.starts_early) is launched so that it may
/// begin before that one has ended, where a kernel is what is right in front of it in the stream. This is as if each
/// began when the one in front has ended, with all that it wrote and read: all threads of such a kernel come to the
/// wait before they touch memory, and it returns when the grid in front is complete, the waits of which are passed. So
/// when the wait of one returns, all kernels before it are complete, also those that the one in front was launched
/// early after. What is not a kernel, copies, products of the library, events, begins when all in front of it is
/// complete. Kernels of prefill take so long that it gains nothing: times were up to 3% longer.
///
/// A kernel whose blocks wait for each other (Launch.resident) is launched with at most one block for each
/// multiprocessor, cooperatively: blocks start only where all of them find a place, whatever runs beside them. It may
/// begin early, too: kernels in front end without it, and those behind begin when all its blocks run.
class CudaExecutor : public Executor {
public:
  /// `device` outlives the executor. `graphs`: decode is captured. `careful`: what is not is waited for after every
  /// dispatch, so that failures name it. `library`: which products of prefill cuBLASLt does, if there is one.
  CudaExecutor(CudaDevice &device, bool graphs, bool careful, LibraryUse library);
  ~CudaExecutor() override;

  Status load(const Artifact &artifact) override { return kernels.load(artifact); }
  Status prepare(const Program &program) override;
  void poison() override {}
  std::string productsText() const override;
  /// An observer sees what every group has done, which takes long.
  Status run(const Program &program, bool withLogits, RunObserver *observer) override;

private:
  struct Plan;

  Plan &planOf(const Program &program);
  Status checkParameters(const DispatchCode &code) const;
  Status encodeMaps(Plan &plan);
  CudaResult launch(Plan &plan, size_t dispatch, CudaStream stream);
  void planProducts(Plan &plan);
  /// Whether the library does a dispatch instead of its kernel in the current step.
  bool multiply(const Plan &plan, size_t dispatch);
  /// What launches, or any work before them, ended with.
  Status launchFailure(const DispatchCode &code, CudaResult result);

  Status runDirectly(Plan &plan, size_t numGroups, RunObserver *observer);
  Status runProfiled(Plan &plan, size_t numGroups, bool inGraph);
  Status makeEvents(size_t count);
  CudaResult submitTimed(Plan &plan, const GroupCode &group, bool inGraph, size_t &event, const DispatchCode *&current);
  CudaResult recordTime(size_t event, bool inGraph);
  Status reportTimes(const Program &program, size_t numGroups);
  /// `waits`: for every dispatch.
  Status launchGroup(Plan &plan, const GroupCode &group, bool waits);
  Status runGraph(Plan &plan, size_t numGroups);
  template <typename Submit> Status capture(Plan &plan, Submit submit, CudaGraphExec &out);
  CudaResult captureGroup(Plan &plan, const GroupCode &group, const DispatchCode *&current);
  Status makeBranches(const Program &program);

  CudaDevice &device;
  CudaKernels kernels;
  bool graphs, careful;
  LibraryUse library;
  std::unique_ptr<CudaBlas> blas;
  std::string whyNoBlas;
  std::vector<std::unique_ptr<Plan>> plans; ///< per program
  std::vector<CudaEvent> events;            ///< of profiles
  bool behindKernel = false;                ///< what comes next into the device's stream is right behind a kernel
  /// Streams beside the device's that captures use, each with the event that ends its part, and the event where parts
  /// begin.
  struct Branch {
    CudaStream stream = nullptr;
    CudaEvent end = nullptr;
  };
  std::vector<Branch> branches;
  CudaEvent fork = nullptr;
};

} // namespace k3rt

#endif // K3RT_EXEC_CUDAEXECUTOR_H
