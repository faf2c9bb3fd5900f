//===- PrefixCache.cpp - states of prefixes that were computed before ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/cache/PrefixCache.h"
#include "runtime/src/state/NonFinite.h"

#include <cassert>

namespace k3rt {

void PrefixCache::init(StatePool &pool, Device &memory, uint64_t bytes) {
  states = &pool;
  device = &memory;
  budget = bytes;
  pageEntries.assign(pool.totalPages(), 0);
}

//===----------------------------------------------------------------------===//
// Lookup
//===----------------------------------------------------------------------===//

Status PrefixCache::attach(const int32_t *tokens, uint64_t count,
                           Holding &holding, uint64_t &outLength) {
  assert(holding.pages.empty() && "the sequence is new");
  outLength = 0;
  if (!enabled() || count == 0)
    return Status();
  ++counts.lookups;
  counts.askedTokens += count;
  // The last token is always computed: its logits are wanted.
  std::optional<uint32_t> entry = tree.findLongest(tokens, count - 1);
  if (!entry)
    return Status();
  Checkpoint &checkpoint = checkpoints[*entry];
  auto full = uint32_t(checkpoint.pages.size());
  uint32_t needed = states->pagesFor(checkpoint.length);
  if (needed - full > states->freePages())
    return Status();
  holding.pages = states->sharePages(checkpoint.pages);
  states->setPages(holding, needed);
  states->loadSlot(holding.slot, checkpoint.copy.data());
  states->loadRows(holding, uint64_t(full) * states->tokensPerPage(),
                   checkpoint.length,
                   checkpoint.copy.data() + states->slotCopyBytes());
  K3RT_RETURN_IF_ERROR(device->finish());
  touch(*entry);
  ++counts.hits;
  counts.reusedTokens += checkpoint.length;
  outLength = checkpoint.length;
  return Status();
}

//===----------------------------------------------------------------------===//
// Keeping and giving up
//===----------------------------------------------------------------------===//

Status PrefixCache::checkFinite(const Checkpoint &checkpoint,
                                const Holding &holding, uint64_t firstRow,
                                bool &outFinite) const {
  outFinite = true;
  const char *at = checkpoint.copy.data();
  auto check = [&](k3::artifact::DType dtype, uint64_t bytes) {
    outFinite = outFinite && allFinite(dtype, at, bytes);
    at += bytes;
  };
  states->visitSlotCopy(check);
  uint64_t count = checkpoint.length - firstRow;
  Allocation rows;
  K3RT_RETURN_IF_ERROR(
      rows.allocate(states->rowCopyBytes(count), "rows to look at"));
  states->saveRows(holding, firstRow, checkpoint.length, rows.data());
  K3RT_RETURN_IF_ERROR(device->finish());
  at = rows.data();
  states->visitRowCopy(count, check);
  return Status();
}

Status PrefixCache::store(const std::vector<int32_t> &tokens,
                          const Holding &holding, double secondsPerToken) {
  if (!enabled() || tokens.empty())
    return Status();
  if (std::optional<uint32_t> known = tree.find(tokens.data(), tokens.size())) {
    ++counts.known;
    touch(*known);
    return Status();
  }
  Checkpoint made;
  made.length = tokens.size();
  made.secondsPerToken = secondsPerToken;
  uint32_t full = states->fullPages(made.length);
  uint64_t firstCopied = uint64_t(full) * states->tokensPerPage();
  uint64_t copyBytes = states->slotCopyBytes() +
                       states->rowCopyBytes(made.length - firstCopied);
  std::optional<uint32_t> before =
      tree.findLongest(tokens.data(), tokens.size());
  auto bytesNeeded = [&] {
    uint64_t bytes = copyBytes;
    for (uint32_t i = 0; i < full; ++i)
      if (pageEntries[uint32_t(holding.pages[i])] == 0)
        bytes += states->pageBytes();
    return bytes;
  };
  if (copyBytes + full * states->pageBytes() > budget ||
      !made.copy.allocate(copyBytes, "a checkpoint").ok()) {
    ++counts.noRoom;
    return Status();
  }
  states->saveSlot(holding.slot, made.copy.data());
  states->saveRows(holding, firstCopied, made.length,
                   made.copy.data() + states->slotCopyBytes());
  K3RT_RETURN_IF_ERROR(device->finish());
  // Earlier rows were looked at when the entry before was stored.
  bool finite;
  K3RT_RETURN_IF_ERROR(checkFinite(
      made, holding, before ? checkpoints[*before].length : 0, finite));
  if (!finite) {
    ++counts.nonFinite;
    return Status();
  }
  while (counts.bytes + bytesNeeded() > budget)
    evict(*cheapest(/*withPages=*/false));

  made.pages = states->sharePages(holding, full);
  counts.bytes += bytesNeeded();
  for (int32_t page : made.pages)
    ++pageEntries[uint32_t(page)];
  uint32_t entry;
  if (unused.empty()) {
    entry = uint32_t(checkpoints.size());
    checkpoints.emplace_back();
  } else {
    entry = unused.back();
    unused.pop_back();
  }
  checkpoints[entry] = std::move(made);
  tree.insert(tokens.data(), tokens.size(), entry);
  touch(entry);
  ++counts.stored;
  ++counts.entries;
  return Status();
}

void PrefixCache::touch(uint32_t entry) {
  Checkpoint &checkpoint = checkpoints[entry];
  // Without it, a request would start at the entry before.
  double seconds = checkpoint.secondsPerToken *
                   double(checkpoint.length - tree.lengthBefore(entry));
  checkpoint.priority = clock + seconds / double(checkpoint.copy.size());
}

std::optional<uint32_t> PrefixCache::cheapest(bool withPages) const {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < checkpoints.size(); ++i) {
    const Checkpoint &checkpoint = checkpoints[i];
    if (checkpoint.length == 0 || (withPages && checkpoint.pages.empty()))
      continue;
    if (!found || checkpoint.priority < checkpoints[*found].priority)
      found = i;
  }
  return found;
}

void PrefixCache::evict(uint32_t entry) {
  Checkpoint &checkpoint = checkpoints[entry];
  clock = checkpoint.priority;
  tree.erase(entry);
  counts.bytes -= checkpoint.copy.size();
  for (int32_t page : checkpoint.pages)
    if (--pageEntries[uint32_t(page)] == 0)
      counts.bytes -= states->pageBytes();
  states->dropPages(checkpoint.pages);
  checkpoint = Checkpoint();
  unused.push_back(entry);
  ++counts.evictions;
  --counts.entries;
}

void PrefixCache::makeRoom(uint32_t pages) {
  while (states->freePages() < pages) {
    std::optional<uint32_t> entry = cheapest(/*withPages=*/true);
    if (!entry)
      return;
    evict(*entry);
  }
}

} // namespace k3rt
