//===- PairMerger.cpp - byte-pair merging by rank -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/PairMerger.h"

#include <algorithm>
#include <functional>

namespace k3rt {

namespace {
constexpr uint32_t none = TokenizerBlob::notFound;
}

void PairMerger::updateRank(std::string_view piece, uint32_t at) {
  Part &part = parts[at];
  part.rank = none;
  if (part.next == piece.size())
    return;
  size_t length = parts[part.next].next - at;
  if (length > vocabulary.longestToken())
    return;
  part.rank = vocabulary.find(piece.substr(at, length));
  if (part.rank == none)
    return;
  heap.push_back(uint64_t(part.rank) << 32 | at);
  std::push_heap(heap.begin(), heap.end(), std::greater<uint64_t>());
}

void PairMerger::encode(std::string_view piece, std::vector<int32_t> &ids) {
  if (piece.empty())
    return;
  if (piece.size() <= vocabulary.longestToken()) {
    uint32_t whole = vocabulary.find(piece);
    if (whole != none) {
      ids.push_back(static_cast<int32_t>(whole));
      return;
    }
  }
  uint32_t size = static_cast<uint32_t>(piece.size());
  parts.resize(size);
  heap.clear();
  for (uint32_t i = 0; i < size; ++i)
    parts[i] = {i + 1, i - 1, none};
  for (uint32_t i = 0; i < size; ++i)
    updateRank(piece, i);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<uint64_t>());
    uint64_t entry = heap.back();
    heap.pop_back();
    uint32_t at = static_cast<uint32_t>(entry);
    // A part that was joined away, or whose pair is another one by now, has
    // another rank: ranks and byte strings are one to one.
    if (parts[at].rank != entry >> 32)
      continue;
    uint32_t gone = parts[at].next;
    parts[at].next = parts[gone].next;
    parts[gone].rank = none;
    if (parts[at].next != size)
      parts[parts[at].next].previous = at;
    updateRank(piece, at);
    if (at != 0)
      updateRank(piece, parts[at].previous);
  }
  for (uint32_t at = 0; at != size; at = parts[at].next)
    ids.push_back(static_cast<int32_t>(
        vocabulary.find(piece.substr(at, parts[at].next - at))));
}

} // namespace k3rt
