//===- Sampling.cpp - tokens that the device chooses ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/Sampling.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

void describe(const Sampler &sampler, uint64_t unused, uint64_t rows,
              RowSampling &out) {
  const SamplerOptions &settings = sampler.settings();
  out.temperature = sampler.isGreedy() ? 0 : settings.temperature;
  out.topK = settings.topK;
  out.topP = settings.topP;
  out.minP = settings.minP;
  out.banned = &settings.bannedIds;
  out.random.clear();
  for (uint64_t row = 0; row < rows && !sampler.isGreedy(); ++row)
    out.random.push_back(sampler.randomBits(row < unused ? 0 : row - unused));
}

Status BanSets::init(Device &on, uint32_t count, uint32_t vocab) {
  device = &on;
  words = banWords(vocab);
  known.clear();
  if (count == 0)
    return Status();
  uint64_t bytes = uint64_t(count) * words * sizeof(int32_t);
  K3RT_RETURN_IF_ERROR(sets.allocate(on, bytes, "banned tokens"));
  K3RT_RETURN_IF_ERROR(staged.allocate(on, bytes, "banned tokens",
                                       DeviceBuffer::Place::host));
  // Nothing is banned in any of them.
  on.fill(sets.data(), 0, bytes);
  known.resize(count);
  return on.finish();
}

std::optional<uint32_t> BanSets::find(const std::vector<int32_t> &ids) {
  auto found = std::find_if(known.begin(), known.end(),
                            [&](const Set &set) { return set.ids == ids; });
  if (found == known.end()) {
    found = std::min_element(
        known.begin(), known.end(),
        [](const Set &a, const Set &b) { return a.lastUse < b.lastUse; });
    if (found == known.end() || found->lastUse == steps)
      return std::nullopt;
    found->ids = ids;
    uint64_t bytes = uint64_t(words) * sizeof(int32_t);
    uint64_t offset = uint64_t(found - known.begin()) * bytes;
    auto *bits = reinterpret_cast<uint32_t *>(staged.data() + offset);
    std::fill(bits, bits + words, 0u);
    for (int32_t id : ids)
      bits[id / 32] |= 1u << (id % 32);
    device->upload(sets.data() + offset, bits, bytes);
  }
  found->lastUse = steps;
  return uint32_t(found - known.begin());
}

static int32_t bitsOf(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

SamplingWords encodeSampling(const RowSampling &sampling, uint64_t row,
                             uint32_t banSet) {
  uint64_t random = sampling.temperature > 0 ? sampling.random[row] : 0;
  return {1,
          bitsOf(sampling.temperature),
          sampling.topK,
          bitsOf(sampling.topP),
          bitsOf(sampling.minP),
          int32_t(uint32_t(random)),
          int32_t(uint32_t(random >> 32)),
          int32_t(banSet)};
}

} // namespace k3rt
