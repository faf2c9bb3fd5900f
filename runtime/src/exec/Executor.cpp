//===- Executor.cpp - runs programs --------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/exec/Executor.h"
#include "runtime/src/artifact/DType.h"

#include <algorithm>

namespace k3rt {

namespace schema = k3::artifact;

static const char *cString(const flatbuffers::String *string) { return string ? string->c_str() : ""; }

static std::string textOf(const flatbuffers::String *string) {
  return string ? quoted(string->c_str(), string->size()) : "''";
}

std::string Executor::kernelText(const DispatchCode &code) { return "kernel " + textOf(code.kernel->name()); }

std::string Executor::placeText(const DispatchCode &code) {
  std::string where = code.layer >= 0 ? formatText("layer %d", code.layer) : std::string("outside layers");
  return " (" + where + ", dispatch " + textOf(code.encoded->label()) + ")";
}

//===----------------------------------------------------------------------===//
// Profiles
//===----------------------------------------------------------------------===//

void Executor::reportTime(const Program &program, const GroupCode &group, int32_t dispatch, double seconds) const {
  k3rt_profile_event event = {};
  event.phase = program.encoded().phase() == schema::Phase::Decode;
  event.section = uint32_t(group.section);
  event.layer = group.layer;
  event.group = group.position;
  event.dispatch = dispatch;
  event.label = "";
  if (dispatch >= 0)
    event.label = cString(program.dispatch(group.firstDispatch + uint32_t(dispatch)).encoded->label());
  event.seconds = seconds;
  profile(profileUser, &event);
}

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

/// The trace's numbers are those of the schema.
static_assert(int(schema::DType::F32) == 0 && int(schema::DType::BF16) == 1 && int(schema::DType::I8) == 2 &&
                  int(schema::DType::U8) == 3 && int(schema::DType::I32) == 4,
              "k3rt_trace_event.dtype");

Status Executor::traceBuffer(const void *data, k3rt_trace_event &event) {
  event.data = data;
  if (!device.isHost()) {
    uint64_t bytes = elementBytes(schema::DType(event.dtype));
    for (uint32_t i = 0; i < event.rank; ++i)
      bytes *= uint64_t(event.shape[i]);
    traced.resize(bytes);
    device.download(traced.data(), data, bytes);
    K3RT_RETURN_IF_ERROR(device.finish());
    event.data = traced.data();
  }
  trace(traceUser, &event);
  return Status();
}

Status Executor::traceGroup(const Program &program, const GroupCode &group) {
  for (uint32_t d = 0; d < group.numDispatches; ++d) {
    const DispatchCode &code = program.dispatch(group.firstDispatch + d);
    for (uint32_t i = 0; i < code.numBindings; ++i) {
      const schema::Binding &binding = *code.encoded->bindings()->Get(i);
      if (!binding.writes() || binding.kind() != schema::BindingKind::Buffer)
        continue;
      const auto *buffer = program.encoded().buffers()->Get(binding.index());
      k3rt_trace_event event = {};
      event.layer = code.layer;
      event.dispatch = cString(code.encoded->label());
      event.buffer = cString(buffer->name());
      event.dtype = uint32_t(buffer->dtype());
      std::vector<int64_t> shape = program.bufferShape(binding.index());
      event.rank = uint32_t(shape.size());
      std::copy(shape.begin(), shape.end(), event.shape);
      K3RT_RETURN_IF_ERROR(traceBuffer(program.bufferData(binding.index()), event));
    }
  }
  return group.endsLayer ? traceLayer(program, group.layer) : Status();
}

Status Executor::traceLayer(const Program &program, int32_t layer) {
  std::optional<LayerOutput> output = program.layerOutput(layer);
  if (!output)
    return Status();
  k3rt_trace_event event = {};
  event.layer = layer;
  event.dispatch = "";
  event.buffer = "out";
  event.rank = 2;
  event.shape[0] = int64_t(output->rows);
  event.shape[1] = int64_t(output->width);
  return traceBuffer(output->values, event);
}

} // namespace k3rt
