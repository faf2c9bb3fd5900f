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

/// Whether any of `count` words of type Word has all bits of `exponent`.
template <typename Word>
static bool anyWithExponent(const char *data, uint64_t count, Word exponent) {
  Word largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Word word;
    memcpy(&word, data + i * sizeof(Word), sizeof(Word));
    word = Word(word & exponent);
    largest = word > largest ? word : largest;
  }
  return largest == exponent;
}

template <typename Word>
static uint64_t findExponent(const char *data, uint64_t count, Word exponent) {
  for (uint64_t begin = 0; begin < count; begin += block) {
    uint64_t end = std::min(begin + block, count);
    if (!anyWithExponent(data + begin * sizeof(Word), end - begin, exponent))
      continue;
    while (!anyWithExponent(data + begin * sizeof(Word), 1, exponent))
      ++begin;
    return begin;
  }
  return count;
}

uint64_t findNonFinite(const float *values, uint64_t count) {
  return findExponent<uint32_t>(reinterpret_cast<const char *>(values), count,
                                0x7f800000);
}

bool allFinite(k3::artifact::DType dtype, const char *data, uint64_t bytes) {
  switch (dtype) {
  case k3::artifact::DType::F32: {
    uint64_t count = bytes / sizeof(uint32_t);
    return findExponent<uint32_t>(data, count, 0x7f800000) == count;
  }
  case k3::artifact::DType::BF16: {
    uint64_t count = bytes / sizeof(uint16_t);
    return findExponent<uint16_t>(data, count, 0x7f80) == count;
  }
  case k3::artifact::DType::I32:
  case k3::artifact::DType::I8:
  case k3::artifact::DType::U8:
    return true;
  }
  __builtin_unreachable(); // checkArtifact knows all types
}

} // namespace k3rt
