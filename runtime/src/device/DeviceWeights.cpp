//===- DeviceWeights.cpp - all weights in the memory of a GPU ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/DeviceWeights.h"
#include "runtime/src/artifact/WeightTensors.h"

namespace k3rt {

namespace schema = k3::artifact;

/// Lays tensors and tables out one after the other; send(to, weight, expert, tensor) fills a tensor, whose number among
/// all is the last argument.
template <typename Send>
Status DeviceWeights::place(const schema::Artifact &index, Device &device, const Progress &progress, Send send) {
  K3RT_RETURN_IF_ERROR(memory.allocate(device, deviceWeightBytes(index), "weights"));
  if (!index.weights())
    return Status();
  char *next = memory.data();
  auto take = [&next](uint64_t bytes) {
    char *begin = next;
    next += alignTo(bytes, deviceWeightAlignment);
    return begin;
  };
  uint64_t tensor = 0;
  std::vector<std::vector<const void *>> tables; // the device's until all is done
  for (uint32_t i = 0; i < index.weights()->size(); ++i) {
    const schema::Weight &weight = *index.weights()->Get(i);
    std::vector<const void *> table;
    for (uint32_t expert = 0; expert < tensorCount(weight); ++expert) {
      char *to = take(tensorBytes(weight));
      send(to, i, expert, tensor++);
      table.push_back(to);
      progress(uint64_t(next - memory.data()), memory.size());
    }
    if (!weight.is_expert_group()) {
      bindings.push_back(table[0]);
      continue;
    }
    uint64_t bytes = table.size() * sizeof(void *);
    char *to = take(bytes);
    device.upload(to, table.data(), bytes);
    bindings.push_back(to);
    tables.push_back(std::move(table));
  }
  return device.finish();
}

Status DeviceWeights::upload(const schema::Artifact &index, const WeightStore &store, Device &device,
                             const Progress &progress) {
  return place(index, device, progress, [&](char *to, uint32_t weight, uint32_t expert, uint64_t) {
    const schema::Weight &encoded = *index.weights()->Get(weight);
    const void *from = store.addresses()[weight];
    if (encoded.is_expert_group())
      from = static_cast<const void *const *>(from)[expert];
    device.upload(to, from, tensorBytes(encoded));
  });
}

Status DeviceWeights::generate(const schema::Artifact &index, uint64_t seed, Device &device, const Progress &progress) {
  RandomWeights random(index, seed);
  return place(index, device, progress, [&](char *to, uint32_t, uint32_t, uint64_t tensor) {
    device.uploadMade(to, random.size(tensor),
                      [&](char *out, uint64_t begin, uint64_t count) { random.write(tensor, begin, count, out); });
  });
}

} // namespace k3rt
