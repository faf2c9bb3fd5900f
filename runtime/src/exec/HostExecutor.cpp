//===- HostExecutor.cpp - runs programs on the CPU -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/exec/HostExecutor.h"
#include "runtime/src/base/Process.h"

#include <cstring>

namespace k3rt {

Status HostExecutor::load(const Artifact &artifact) {
  K3RT_RETURN_IF_ERROR(kernels.load(artifact));
  return scratch.allocate(scratchStride * threads.threads(), "kernels' scratch memory");
}

void HostExecutor::poison() {
  if (scratch.size() != 0)
    memset(scratch.data(), 0xff, scratch.size());
}

/// A group while it runs. `failure` is the first kernel failure: dispatch + 1 in the high half, the kernel's code in
/// the low.
struct HostExecutor::Job {
  const Program &program;
  const GroupCode &group;
  const KernelTable &kernels;
  char *scratch;
  uint64_t scratchStride;
  std::atomic<uint64_t> failure{0};
};

void HostExecutor::runTiles(Job &job, uint32_t first, uint32_t last, uint32_t thread) {
  const GroupCode &group = job.group;
  uint32_t d = 0, tilesBegin = 0;
  auto dispatch = [&]() -> const DispatchCode & { return job.program.dispatch(group.firstDispatch + d); };
  while (first < last) {
    while (first >= dispatch().tilesEnd)
      tilesBegin = dispatch().tilesEnd, ++d;
    const DispatchCode &code = dispatch();
    k3_kernel_fn function = job.kernels.kernel(code.ordinal);
    k3_kernel_args args = {job.program.bindings(code), job.program.scalars(code)};
    k3_workgroup workgroup = {{0, 0, 0},
                              {code.grid[0], code.grid[1], code.grid[2]},
                              job.scratch + job.scratchStride * thread,
                              code.kernel->scratch_bytes()};
    uint32_t end = code.tilesEnd < last ? code.tilesEnd : last;
    for (; first < end; ++first) {
      if (job.failure.load(std::memory_order_relaxed) != 0)
        return;
      uint32_t tile = first - tilesBegin;
      workgroup.id[0] = tile % code.grid[0];
      workgroup.id[1] = tile / code.grid[0] % code.grid[1];
      workgroup.id[2] = tile / code.grid[0] / code.grid[1];
      int32_t result = function(&args, &workgroup);
      if (result == 0)
        continue;
      uint64_t none = 0;
      job.failure.compare_exchange_strong(none, uint64_t(d + 1) << 32 | uint32_t(result));
      return;
    }
  }
}

Status HostExecutor::runGroup(const Program &program, const GroupCode &group, uint32_t first, uint32_t last) {
  Job job{program, group, kernels, scratch.data(), scratchStride, {}};
  threads.parallelFor(last - first, [&job, first](uint32_t begin, uint32_t end, uint32_t thread) {
    runTiles(job, first + begin, first + end, thread);
  });
  uint64_t failure = job.failure.load();
  if (failure == 0)
    return Status();
  const DispatchCode &code = program.dispatch(group.firstDispatch + uint32_t(failure >> 32) - 1);
  return makeError(K3RT_INTERNAL, "%s failed with code %d%s", kernelText(code).c_str(), int32_t(failure),
                   placeText(code).c_str());
}

Status HostExecutor::run(const Program &program, bool withLogits, RunObserver *observer) {
  size_t count = withLogits ? program.groups().size() : program.epilogueBegin();
  for (size_t i = 0; i < count; ++i) {
    const GroupCode &group = program.groups()[i];
    K3RT_RETURN_IF_ERROR(profiling() != Profiling::off ? runProfiled(program, group)
                                                       : runGroup(program, group, 0, group.tiles));
    if (observer)
      observer->afterGroup(program, group);
    if (traces())
      K3RT_RETURN_IF_ERROR(traceGroup(program, group));
  }
  return Status();
}

Status HostExecutor::runProfiled(const Program &program, const GroupCode &group) {
  auto runTimed = [&](uint32_t first, uint32_t last, int32_t dispatch) {
    double start = secondsNow();
    Status status = runGroup(program, group, first, last);
    double seconds = secondsNow() - start;
    if (status.ok())
      reportTime(program, group, dispatch, seconds);
    return status;
  };
  if (profiling() == Profiling::groups)
    return runTimed(0, group.tiles, -1);
  uint32_t first = 0;
  for (uint32_t d = 0; d < group.numDispatches; ++d) {
    uint32_t last = program.dispatch(group.firstDispatch + d).tilesEnd;
    K3RT_RETURN_IF_ERROR(runTimed(first, last, int32_t(d)));
    first = last;
  }
  return Status();
}

} // namespace k3rt
