//===- Grid.cpp - order between blocks ------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Block.h"

#include <algorithm>

using namespace k3::test;
using namespace k3::test::ptx;

MemoryOrder::MemoryOrder(const Instruction &in) {
  bool readsAndWrites = in.words[0] == "atom" || in.words[0] == "red";
  bool ofDevice = in.has("gpu") || in.has("sys") || (readsAndWrites && !in.has("cta") && !in.has("cluster"));
  acquires = ofDevice && (in.has("acquire") || in.has("acq_rel"));
  releases = ofDevice && (in.has("release") || in.has("acq_rel"));
  atomic = in.has("volatile") || (ofDevice && (readsAndWrites || acquires || releases || in.has("relaxed")));
}

void ptx::join(WarpTimes &times, const WarpTimes &more) {
  if (times.size() < more.size())
    times.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i)
    times[i] = std::max(times[i], more[i]);
}

std::uint32_t BlockOrder::numberOf(const Warp &w) const { return w.block->number * warpsPerBlock + w.number; }

std::uint32_t BlockOrder::timeKnown(const Warp &w, std::uint32_t warp) const {
  if (warp / warpsPerBlock == w.block->number)
    return w.clocks.at[warp % warpsPerBlock];
  return warp < w.clocks.others.size() ? w.clocks.others[warp] : 0;
}

WarpTimes BlockOrder::timesKnown(const Warp &w) const {
  WarpTimes times(std::size_t(blocks) * warpsPerBlock);
  for (std::uint32_t warp = 0; warp < times.size(); ++warp)
    times[warp] = timeKnown(w, warp);
  return times;
}

void BlockOrder::learn(Warp &w, const WarpTimes &times) const {
  if (times.empty())
    return;
  Clocks clocks;
  clocks.others = times;
  std::copy_n(times.begin() + w.block->number * warpsPerBlock, warpsPerBlock, clocks.at.begin());
  w.acquire(clocks);
}

void BlockOrder::access(Warp &w, std::uint64_t at, std::size_t size, MemoryUse use) {
  Entry now{numberOf(w), w.clocks.at[w.number], use.writes, use.atomic, use.bulk};
  for (std::uint64_t i = at; i < at + size; ++i) {
    std::vector<Entry> &entries = pages[i / pageBytes][i % pageBytes];
    auto isOrdered = [&](const Entry &before) { return timeKnown(w, before.warp) >= before.clock; };
    for (const Entry &before : entries) {
      std::uint32_t block = before.warp / warpsPerBlock;
      if (block == w.block->number || (before.atomic && now.atomic) || !(before.writes || now.writes))
        continue;
      bool byBulkCopy = (before.bulk && before.writes) || (now.bulk && before.writes);
      if (isOrdered(before) && !byBulkCopy)
        continue;
      fail(std::string("race in global memory: ") + (now.bulk ? "a bulk copy " : "") + (now.writes ? "writes" : "reads") +
           " what " + (before.bulk ? "a bulk copy of " : "") + "block " + std::to_string(block) +
           (before.writes ? " has written" : " has read") +
           (byBulkCopy ? ", and nothing orders bulk copies of different blocks"
                       : ", with no release by that block and acquire by this one in between"));
    }
    // Whoever comes in conflict with an older access and not with this one is still to be found.
    auto isCovered = [&](const Entry &before) {
      return isOrdered(before) && (now.writes || !before.writes) && (before.atomic || !now.atomic) &&
             (now.bulk || !before.bulk);
    };
    entries.erase(std::remove_if(entries.begin(), entries.end(), isCovered), entries.end());
    entries.push_back(now);
  }
}

void BlockOrder::synchronize(Warp &w, std::uint64_t at, bool reads, bool writes, bool replaces, MemoryOrder order) {
  WarpTimes &place = published[at];
  if (reads) {
    if (order.acquires)
      learn(w, place);
    else
      join(w.met, place);
  }
  if (!writes)
    return;
  if (replaces)
    place.clear();
  if (!order.releases)
    return join(place, w.fenced);
  join(place, timesKnown(w));
  ++w.clocks.at[w.number];
}

void BlockOrder::fence(Warp &w) {
  learn(w, w.met);
  w.fenced = timesKnown(w);
  ++w.clocks.at[w.number];
}
