//===- NgramDrafter.cpp - drafts from what the sequence has said before --===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/speculation/NgramDrafter.h"

#include <algorithm>
#include <cassert>

namespace k3rt {

/// A rejected draft costs a run for nothing. While fewer than this share of the
/// tokens is accepted that matches of some length gave, short drafts try whether that has changed, after
/// longer and longer pauses.
static constexpr double worthwhile = 0.3;
static constexpr uint32_t triedTokens = 2;
static constexpr uint32_t shortestPause = 15, longestPause = 127;
/// Weight of the last draft in the running share.
static constexpr double newest = 0.25;

NgramDrafter::NgramDrafter(uint32_t longestMatch, uint32_t shortestMatch)
    : longest(longestMatch), shortest(shortestMatch) {
  assert(shortest >= 1 && shortest <= longest);
  lastEnd.resize(longest - shortest + 1);
  // The shorter the match, the less is expected of it.
  for (uint32_t n = shortest; n <= longest; ++n)
    records.push_back({std::max(0.6 - 0.12 * (longest - n), worthwhile), 0,
                       shortestPause, n == longest ? UINT32_MAX : triedTokens});
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
    drafted = n - shortest;
    Record &record = records[drafted];
    if (record.acceptance < worthwhile) {
      if (record.pause != 0) {
        --record.pause;
        return {};
      }
      record.pause = record.nextPause;
    }
    count = std::min(count, record.mostTokens);
    // What repeats itself goes on to do so.
    uint64_t period = history.size() - found->second;
    std::vector<int32_t> tokens(count);
    for (uint64_t i = 0; i < count; ++i)
      tokens[i] = i < period ? history[found->second + i] : tokens[i - period];
    return tokens;
  }
  return {};
}

void NgramDrafter::report(uint32_t tokens, uint32_t accepted) {
  if (tokens == 0)
    return;
  Record &record = records[drafted];
  double share = double(accepted) / tokens;
  record.acceptance += newest * (share - record.acceptance);
  constexpr uint32_t most = UINT32_MAX / 2;
  record.mostTokens =
      accepted == tokens
          ? std::max(record.mostTokens, 2 * std::min(tokens, most))
          : std::max(accepted + 1, triedTokens);
  if (share >= worthwhile)
    record.nextPause = shortestPause;
  else if (record.acceptance < worthwhile)
    record.nextPause = std::min(2 * record.nextPause + 1, longestPause);
}

} // namespace k3rt
