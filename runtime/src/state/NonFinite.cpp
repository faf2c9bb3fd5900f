//===- NonFinite.cpp - looking for NaN and infinity ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/state/NonFinite.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

/// Values are looked at in blocks, without a branch inside one.
static constexpr uint64_t block = 1024;

/// Whether any of `count` words has all bits of its exponent. `lowest` is the lowest bit of the exponent: added to a word
/// without its sign, it carries into the sign exactly then. Three operations, which every vector unit has.
template <typename Word>
static bool anyNonFinite(const char *data, uint64_t count, Word lowest) {
  constexpr Word sign = Word(Word(1) << (8 * sizeof(Word) - 1));
  Word seen = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Word word;
    memcpy(&word, data + i * sizeof(Word), sizeof(Word));
    seen = Word(seen | Word(Word(word & Word(~sign)) + lowest));
  }
  return (seen & sign) != 0;
}

template <typename Word>
static uint64_t findNonFinite(const char *data, uint64_t count, Word lowest) {
  for (uint64_t begin = 0; begin < count; begin += block) {
    uint64_t end = std::min(begin + block, count);
    if (!anyNonFinite(data + begin * sizeof(Word), end - begin, lowest))
      continue;
    while (!anyNonFinite(data + begin * sizeof(Word), 1, lowest))
      ++begin;
    return begin;
  }
  return count;
}

static constexpr uint32_t lowestF32 = 1u << 23;
static constexpr uint16_t lowestBf16 = 1u << 7;

uint64_t findNonFinite(const float *values, uint64_t count) {
  return findNonFinite(reinterpret_cast<const char *>(values), count,
                       lowestF32);
}

bool allFinite(k3::artifact::DType dtype, const char *data, uint64_t bytes) {
  switch (dtype) {
  case k3::artifact::DType::F32: {
    uint64_t count = bytes / sizeof(uint32_t);
    return findNonFinite(data, count, lowestF32) == count;
  }
  case k3::artifact::DType::BF16: {
    uint64_t count = bytes / sizeof(uint16_t);
    return findNonFinite(data, count, lowestBf16) == count;
  }
  case k3::artifact::DType::I32:
  case k3::artifact::DType::I8:
  case k3::artifact::DType::U8:
    return true;
  }
  __builtin_unreachable(); // checkArtifact knows all types
}

} // namespace k3rt
