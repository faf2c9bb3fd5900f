//===- DeviceWeights.cpp - all weights in the memory of a GPU ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/DeviceWeights.h"
#include "runtime/src/artifact/WeightTensors.h"

#include <algorithm>

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

static void copyPieces(const RandomWeights &random, size_t tensor, char *to, const char *block, Device &device) {
  uint64_t bytes = random.size(tensor);
  for (uint64_t begin = 0; begin < bytes; begin += RandomWeights::pieceBytes)
    device.copy(to + begin, block + random.pieceOffset(tensor, begin / RandomWeights::pieceBytes),
                std::min(bytes - begin, RandomWeights::pieceBytes));
}

/// Each block is sent once, and what is cut out of it is copied on the device, unless the tensors themselves are not much
/// more.
Status DeviceWeights::generate(const schema::Artifact &index, uint64_t seed, Device &device, const Progress &progress) {
  RandomWeights random(index, seed);
  struct Part {
    char *to;
    size_t tensor;
  };
  std::vector<std::vector<Part>> blocks(random.numBlocks());
  std::vector<uint64_t> totals(random.numBlocks());
  K3RT_RETURN_IF_ERROR(place(index, device, Progress(), [&](char *to, uint32_t, uint32_t, uint64_t tensor) {
    size_t block = random.blockOf(tensor);
    blocks[block].push_back({to, tensor});
    totals[block] += random.size(tensor);
  }));
  uint64_t done = 0, total = 0;
  for (uint64_t bytes : totals)
    total += bytes;
  DeviceBuffer source;
  for (size_t block = 0; block < blocks.size(); ++block) {
    bool copies = totals[block] > 2 * RandomWeights::blockBytes;
    if (copies) {
      if (!source.data())
        K3RT_RETURN_IF_ERROR(source.allocate(device, RandomWeights::blockBytes, "random values"));
      device.uploadMade(source.data(), source.size(), [&](char *out, uint64_t begin, uint64_t count) {
        random.writeBlock(block, begin, count, out);
      });
    }
    for (const Part &part : blocks[block]) {
      uint64_t bytes = random.size(part.tensor);
      if (copies)
        copyPieces(random, part.tensor, part.to, source.data(), device);
      else
        device.uploadMade(part.to, bytes, [&](char *out, uint64_t begin, uint64_t count) {
          random.write(part.tensor, begin, count, out);
        });
      progress(done += bytes, total);
    }
  }
  return device.finish();
}

} // namespace k3rt
