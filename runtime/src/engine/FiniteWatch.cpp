//===- FiniteWatch.cpp - where a run's values stop being finite ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/FiniteWatch.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/state/NonFinite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace k3rt {

namespace schema = k3::artifact;

void FiniteWatch::begin(const StepInputs &newInputs, Device &on, bool all) {
  inputs = &newInputs;
  device = &on;
  everything = all;
  parts.clear();
  firstRows.assign(1, 0);
  findings.clear();
  firstValue.reset();
}

void FiniteWatch::add(const Part &part) {
  parts.push_back(part);
  firstRows.push_back(firstRows.back() + part.rows);
  findings.emplace_back();
}

uint32_t FiniteWatch::partOfRow(uint32_t row) const {
  auto next = std::upper_bound(firstRows.begin(), firstRows.end(), row);
  return uint32_t(next - firstRows.begin()) - 1;
}

void FiniteWatch::afterGroup(const Program &program, const GroupCode &group) {
  for (uint32_t d = 0; everything && !firstValue && d < group.numDispatches;
       ++d)
    lookAtDispatch(program, program.dispatch(group.firstDispatch + d));
  if (group.endsLayer)
    lookAtLayer(program, group.layer);
}

const char *FiniteWatch::onHost(const void *data, uint64_t bytes) {
  if (device->isHost() || bytes == 0)
    return static_cast<const char *>(data);
  downloaded.resize(bytes);
  device->download(downloaded.data(), data, bytes);
  return device->finish().ok() ? downloaded.data() : nullptr;
}

void FiniteWatch::lookAtLayer(const Program &program, int32_t layer) {
  std::optional<LayerOutput> output = program.layerOutput(layer);
  if (!output)
    return;
  const auto *values = reinterpret_cast<const float *>(onHost(
      output->values, output->rows * output->width * sizeof(float)));
  if (!values)
    return;
  for (uint64_t row = 0; row < output->rows;) {
    uint64_t at = findNonFinite(values + row * output->width,
                                (output->rows - row) * output->width);
    row += at / output->width;
    if (row >= output->rows)
      return;
    uint32_t part = partOfRow(uint32_t(row));
    if (!findings[part])
      findings[part] = Finding{layer, uint32_t(row) - firstRows[part]};
    row = firstRows[part + 1];
  }
}

static std::string textOf(const flatbuffers::String *string) {
  return string ? string->str() : std::string();
}

void FiniteWatch::lookAtDispatch(const Program &program,
                                 const DispatchCode &code) {
  if (!code.encoded->bindings())
    return;
  for (const auto *binding : *code.encoded->bindings()) {
    if (!binding->writes())
      continue;
    NonFiniteValue found;
    bool bad = binding->kind() == schema::BindingKind::Buffer
                   ? lookAtBuffer(program, binding->index(), found)
               : binding->kind() == schema::BindingKind::LayerState
                   ? lookAtState(program, *binding, code.layer, found)
                   : false;
    if (!bad)
      continue;
    found.layer = code.layer;
    found.dispatch = textOf(code.encoded->label());
    found.kernel = textOf(code.kernel->name());
    firstValue = std::move(found);
    return;
  }
}

/// Position of the first value that is not finite, or `count`.
static uint64_t findBad(schema::DType dtype, const char *data, uint64_t count,
                        float &value) {
  if (dtype == schema::DType::F32) {
    const auto *values = reinterpret_cast<const float *>(data);
    uint64_t at = findNonFinite(values, count);
    if (at != count)
      value = values[at];
    return at;
  }
  if (dtype != schema::DType::BF16 ||
      allFinite(dtype, data, count * sizeof(uint16_t)))
    return count;
  for (uint64_t at = 0;; ++at) {
    uint16_t high;
    memcpy(&high, data + at * sizeof(high), sizeof(high));
    uint32_t bits = uint32_t(high) << 16;
    memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value))
      return at;
  }
}

bool FiniteWatch::lookAtBuffer(const Program &program, uint32_t buffer,
                               NonFiniteValue &found) {
  const auto *encoded = program.encoded().buffers()->Get(buffer);
  std::vector<int64_t> shape = program.bufferShape(buffer);
  uint64_t count = 1;
  for (int64_t size : shape)
    count *= uint64_t(size);
  bool isFloat = encoded->dtype() == schema::DType::F32 ||
                 encoded->dtype() == schema::DType::BF16;
  if (!isFloat)
    return false;
  const char *data = onHost(program.bufferData(buffer),
                            count * elementBytes(encoded->dtype()));
  if (!data)
    return false;
  uint64_t at = findBad(encoded->dtype(), data, count, found.value);
  if (at == count)
    return false;
  found.buffer = textOf(encoded->name());
  found.index.resize(shape.size());
  for (size_t i = shape.size(); i-- > 0; at /= uint64_t(shape[i]))
    found.index[i] = int64_t(at % uint64_t(shape[i]));
  for (uint32_t i = 0; i < shape.size() && !found.part; ++i)
    if (std::optional<Symbol> dimension = program.bufferDimension(buffer, i))
      findOwner(*dimension, found.index[i], found);
  return true;
}

void FiniteWatch::findOwner(Symbol dimension, int64_t index,
                            NonFiniteValue &found) const {
  auto input = [this](Input which) {
    return inputs->addresses()[size_t(which)];
  };
  switch (dimension) {
  case Symbol::rows:
    found.row = uint32_t(index);
    break;
  case Symbol::logitRows:
    found.row = uint32_t(input(Input::logitRows)[index]);
    break;
  case Symbol::chunks:
    found.part = partOfRow(uint32_t(input(Input::chunks)[2 * index]));
    return;
  case Symbol::sequences:
    found.part = uint32_t(index);
    return;
  default:
    return;
  }
  found.part = partOfRow(*found.row);
}

bool FiniteWatch::lookAtState(const Program &program,
                              const schema::Binding &binding, int32_t layer,
                              NonFiniteValue &found) const {
  uint32_t state = program.stateOf(binding, layer);
  for (uint32_t i = 0; i < parts.size(); ++i) {
    std::vector<float> values(states.elements(state, parts[i].length));
    states.readAsFloat(state, *parts[i].holding, parts[i].length,
                       values.data());
    uint64_t at = findNonFinite(values.data(), values.size());
    if (at == values.size())
      continue;
    found.buffer = textOf(program.state(state).name());
    found.index = {int64_t(at)};
    found.value = values[at];
    found.part = i;
    return true;
  }
  return false;
}

} // namespace k3rt
