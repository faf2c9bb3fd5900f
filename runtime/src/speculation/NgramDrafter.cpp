//===- NgramDrafter.cpp - drafts from what the sequence has said before --===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/speculation/NgramDrafter.h"

#include <algorithm>
#include <cassert>

namespace k3rt {

/// A rejected draft costs a run for nothing. While fewer than this share of
/// drafted tokens is accepted, only every so many-th chance is used to see
/// whether that has changed.
static constexpr double worthwhile = 0.3;
static constexpr uint32_t chancesSkipped = 15;
/// Weight of the last draft in the running share.
static constexpr double newest = 0.25;

NgramDrafter::NgramDrafter(uint32_t longestMatch, uint32_t shortestMatch)
    : longest(longestMatch), shortest(shortestMatch) {
  assert(shortest >= 1 && shortest <= longest);
  lastEnd.resize(longest - shortest + 1);
}

uint64_t NgramDrafter::hashEndingAt(uint64_t end, uint32_t length) const {
  uint64_t hash = length;
  for (uint64_t i = end - length; i < end; ++i)
    hash = (hash ^ uint64_t(uint32_t(history[i]))) * 0x9e3779b97f4a7c15u,
    hash ^= hash >> 29;
  return hash;
}

bool NgramDrafter::equalBefore(uint64_t a, uint64_t b, uint32_t length) const {
  return std::equal(history.begin() + long(a - length),
                    history.begin() + long(a),
                    history.begin() + long(b - length));
}

void NgramDrafter::observe(const int32_t *tokens, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    // The n-grams that ended the history have a successor now.
    for (uint32_t n = shortest; n <= longest && n <= history.size(); ++n)
      lastEnd[n - shortest][hashEndingAt(history.size(), n)] = history.size();
    history.push_back(tokens[i]);
  }
}

std::vector<int32_t> NgramDrafter::draft(uint32_t count) {
  for (uint32_t n = longest; n >= shortest; --n) {
    if (history.size() < n)
      continue;
    const auto &ends = lastEnd[n - shortest];
    auto found = ends.find(hashEndingAt(history.size(), n));
    if (found == ends.end() ||
        !equalBefore(found->second, history.size(), n))
      continue;
    if (acceptance < worthwhile && pause != 0) {
      --pause;
      return {};
    }
    pause = chancesSkipped;
    uint64_t begin = found->second;
    uint64_t end = std::min<uint64_t>(begin + count, history.size());
    return std::vector<int32_t>(history.begin() + long(begin),
                                history.begin() + long(end));
  }
  return {};
}

void NgramDrafter::report(uint32_t drafted, uint32_t accepted) {
  if (drafted != 0)
    acceptance += newest * (double(accepted) / drafted - acceptance);
}

} // namespace k3rt
