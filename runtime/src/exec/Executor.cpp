//===- Executor.cpp - runs programs --------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/exec/Executor.h"
#include "runtime/src/base/Process.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

namespace schema = k3::artifact;

Status Executor::init(ThreadPool &pool, uint64_t scratchPerThread) {
  threads = &pool;
  scratchStride = scratchPerThread;
  return scratch.allocate(scratchPerThread * pool.threads(),
                          "kernels' scratch memory");
}

void Executor::poisonScratch() {
  if (scratch.size() != 0)
    memset(scratch.data(), 0xff, scratch.size());
}

/// A group while it runs. `failure` is the first kernel failure: dispatch + 1
/// in the high half, the kernel's code in the low.
struct Executor::Job {
  const Program &program;
  const GroupCode &group;
  char *scratch;
  uint64_t scratchStride;
  std::atomic<uint64_t> failure{0};
};

void Executor::runTiles(Job &job, uint32_t first, uint32_t last,
                        uint32_t thread) {
  const GroupCode &group = job.group;
  uint32_t d = 0, tilesBegin = 0;
  auto dispatch = [&]() -> const DispatchCode & {
    return job.program.dispatch(group.firstDispatch + d);
  };
  while (first < last) {
    while (first >= dispatch().tilesEnd)
      tilesBegin = dispatch().tilesEnd, ++d;
    const DispatchCode &code = dispatch();
    k3_kernel_args args = {job.program.bindings(code),
                           job.program.scalars(code)};
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
      int32_t result = code.function(&args, &workgroup);
      if (result == 0)
        continue;
      uint64_t none = 0;
      job.failure.compare_exchange_strong(none, uint64_t(d + 1) << 32 |
                                                    uint32_t(result));
      return;
    }
  }
}

static const char *cString(const flatbuffers::String *string) {
  return string ? string->c_str() : "";
}

static std::string textOf(const flatbuffers::String *string) {
  return string ? quoted(string->c_str(), string->size()) : "''";
}

Status Executor::runGroup(const Program &program, const GroupCode &group,
                          uint32_t first, uint32_t last) {
  Job job{program, group, scratch.data(), scratchStride, {}};
  threads->parallelFor(
      last - first, [&job, first](uint32_t begin, uint32_t end, uint32_t thread) {
        runTiles(job, first + begin, first + end, thread);
      });
  uint64_t failure = job.failure.load();
  if (failure == 0)
    return Status();
  const DispatchCode &code =
      program.dispatch(group.firstDispatch + uint32_t(failure >> 32) - 1);
  std::string where = code.layer >= 0 ? formatText("layer %d", code.layer)
                                      : std::string("outside layers");
  return makeError(K3RT_INTERNAL,
                   "kernel %s failed with code %d (%s, dispatch %s)",
                   textOf(code.kernel->name()).c_str(), int32_t(failure),
                   where.c_str(), textOf(code.encoded->label()).c_str());
}

Status Executor::run(const Program &program, bool withLogits,
                     RunObserver *observer) {
  size_t count = withLogits ? program.groups().size() : program.epilogueBegin();
  for (size_t i = 0; i < count; ++i) {
    const GroupCode &group = program.groups()[i];
    K3RT_RETURN_IF_ERROR(profile ? runProfiled(program, group)
                                 : runGroup(program, group, 0, group.tiles));
    if (observer)
      observer->afterGroup(program, group);
    if (!trace)
      continue;
    traceGroup(program, group);
    if (group.endsLayer)
      traceLayer(program, group.layer);
  }
  return Status();
}

Status Executor::runProfiled(const Program &program, const GroupCode &group) {
  k3rt_profile_event event = {};
  event.phase = program.encoded().phase() == schema::Phase::Decode;
  event.section = uint32_t(group.section);
  event.layer = group.layer;
  event.group = group.position;
  auto runTimed = [&](uint32_t first, uint32_t last) {
    double start = secondsNow();
    Status status = runGroup(program, group, first, last);
    event.seconds = secondsNow() - start;
    if (status.ok())
      profile(profileUser, &event);
    return status;
  };
  if (!profileDispatches) {
    event.dispatch = -1;
    event.label = "";
    return runTimed(0, group.tiles);
  }
  uint32_t first = 0;
  for (uint32_t d = 0; d < group.numDispatches; ++d) {
    const DispatchCode &code = program.dispatch(group.firstDispatch + d);
    event.dispatch = int32_t(d);
    event.label = cString(code.encoded->label());
    K3RT_RETURN_IF_ERROR(runTimed(first, code.tilesEnd));
    first = code.tilesEnd;
  }
  return Status();
}

/// The trace's numbers are those of the schema.
static_assert(int(schema::DType::F32) == 0 && int(schema::DType::BF16) == 1 &&
                  int(schema::DType::I8) == 2 && int(schema::DType::U8) == 3 &&
                  int(schema::DType::I32) == 4,
              "k3rt_trace_event.dtype");

void Executor::traceGroup(const Program &program,
                          const GroupCode &group) const {
  for (uint32_t d = 0; d < group.numDispatches; ++d) {
    const DispatchCode &code = program.dispatch(group.firstDispatch + d);
    if (!code.encoded->bindings())
      continue;
    for (const auto *binding : *code.encoded->bindings()) {
      if (!binding->writes() || binding->kind() != schema::BindingKind::Buffer)
        continue;
      const auto *buffer = program.encoded().buffers()->Get(binding->index());
      k3rt_trace_event event = {};
      event.layer = code.layer;
      event.dispatch = cString(code.encoded->label());
      event.buffer = cString(buffer->name());
      event.dtype = uint32_t(buffer->dtype());
      std::vector<int64_t> shape = program.bufferShape(binding->index());
      event.rank = uint32_t(shape.size());
      std::copy(shape.begin(), shape.end(), event.shape);
      event.data = program.bufferData(binding->index());
      trace(traceUser, &event);
    }
  }
}

void Executor::traceLayer(const Program &program, int32_t layer) const {
  std::optional<LayerOutput> output = program.layerOutput(layer);
  if (!output)
    return;
  k3rt_trace_event event = {};
  event.layer = layer;
  event.dispatch = "";
  event.buffer = "out";
  event.rank = 2;
  event.shape[0] = int64_t(output->rows);
  event.shape[1] = int64_t(output->width);
  event.data = output->values;
  trace(traceUser, &event);
}

} // namespace k3rt
