//===- PrefixCache.cpp - states of prefixes that were computed before ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/cache/PrefixCache.h"
#include "runtime/src/state/NonFinite.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <unistd.h>

namespace k3rt {

void PrefixCache::init(StatePool &pool, Device &memory,
                       const PrefixCacheOptions &chosen) {
  states = &pool;
  device = &memory;
  options = chosen;
  pageEntries.assign(pool.totalPages(), 0);
}

PrefixCache::~PrefixCache() {
  for (const Checkpoint &checkpoint : checkpoints)
    if (checkpoint.spilled())
      unlink(checkpoint.file.c_str());
}

/// Rows before it are in full pages.
uint64_t PrefixCache::firstCopiedRow(uint64_t length) const {
  return uint64_t(states->fullPages(length)) * states->tokensPerPage();
}

//===----------------------------------------------------------------------===//
// Lookup
//===----------------------------------------------------------------------===//

void PrefixCache::load(Holding &holding, uint64_t length, const char *copy,
                       bool hasAll) {
  uint64_t firstCopied = firstCopiedRow(length);
  states->loadSlot(holding.slot, copy);
  copy += states->slotCopyBytes();
  if (hasAll) {
    states->loadRows(holding, 0, firstCopied, copy);
    copy += states->rowCopyBytes(firstCopied);
  }
  states->loadRows(holding, firstCopied, length, copy);
}

Status PrefixCache::attach(const int32_t *tokens, uint64_t count,
                           uint32_t mostPages, Holding &holding,
                           uint64_t &outLength) {
  assert(holding.pages.empty() && "the sequence is new");
  outLength = 0;
  if (!enabled() || count == 0)
    return Status();
  ++counts.lookups;
  counts.askedTokens += count;
  // The last token is always computed: its logits are wanted.
  while (std::optional<uint32_t> entry = tree.findLongest(tokens, count - 1)) {
    Checkpoint &checkpoint = checkpoints[*entry];
    auto shared = uint32_t(checkpoint.pages.size());
    uint32_t needed = states->pagesFor(checkpoint.length);
    if (needed - shared > mostPages)
      return Status();
    if (checkpoint.spilled()) {
      bool usable;
      K3RT_RETURN_IF_ERROR(attachFile(*entry, holding, usable));
      if (!usable)
        continue; // It has been forgotten: look for a shorter one.
    } else {
      holding.pages = states->sharePages(checkpoint.pages);
      states->setPages(holding, needed);
      load(holding, checkpoint.length, checkpoint.copy.data(),
           /*hasAll=*/false);
      K3RT_RETURN_IF_ERROR(device->finish());
    }
    touch(*entry);
    ++counts.hits;
    counts.reusedTokens += checkpoint.length;
    outLength = checkpoint.length;
    return Status();
  }
  return Status();
}

Status PrefixCache::attachFile(uint32_t entry, Holding &holding,
                               bool &outUsable) {
  Checkpoint &checkpoint = checkpoints[entry];
  std::vector<int32_t> tokens;
  Allocation copy;
  Status status = readStateFile(checkpoint.file, StateFileKind::prefix,
                                options.model, tokens, copy);
  outUsable = status.ok() && tokens == tree.tokensOf(entry);
  if (!outUsable) {
    ++counts.spillErrors;
    forget(entry);
    return Status();
  }
  ++counts.spillLoads;
  states->setPages(holding, states->pagesFor(checkpoint.length));
  load(holding, checkpoint.length, copy.data(), /*hasAll=*/true);
  return device->finish();
}

//===----------------------------------------------------------------------===//
// Keeping
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
                          const Holding &holding) {
  if (!enabled() || tokens.empty())
    return Status();
  if (std::optional<uint32_t> known = tree.find(tokens.data(), tokens.size())) {
    ++counts.known;
    touch(*known);
    return Status();
  }
  Checkpoint made;
  made.length = tokens.size();
  uint32_t full = states->fullPages(made.length);
  uint64_t firstCopied = firstCopiedRow(made.length);
  uint64_t copyBytes = states->slotCopyBytes() +
                       states->rowCopyBytes(made.length - firstCopied);
  auto bytesNeeded = [&] {
    uint64_t bytes = copyBytes;
    for (uint32_t i = 0; i < full; ++i)
      if (pageEntries[uint32_t(holding.pages[i])] == 0)
        bytes += states->pageBytes();
    return bytes;
  };
  if (copyBytes + full * states->pageBytes() > options.budget ||
      !made.copy.allocate(copyBytes, "a checkpoint").ok()) {
    ++counts.noRoom;
    return Status();
  }
  states->saveSlot(holding.slot, made.copy.data());
  states->saveRows(holding, firstCopied, made.length,
                   made.copy.data() + states->slotCopyBytes());
  K3RT_RETURN_IF_ERROR(device->finish());
  // Earlier rows were looked at when the entry before was stored.
  std::optional<uint32_t> before =
      tree.findLongest(tokens.data(), tokens.size());
  bool finite;
  K3RT_RETURN_IF_ERROR(checkFinite(
      made, holding, before ? checkpoints[*before].length : 0, finite));
  if (!finite) {
    ++counts.nonFinite;
    return Status();
  }
  while (counts.bytes + bytesNeeded() > options.budget)
    evict(*cheapest([](const Checkpoint &each) { return each.resident(); }));

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

//===----------------------------------------------------------------------===//
// Giving up
//===----------------------------------------------------------------------===//

/// What an entry saves, for its size: the tokens that a request would have to
/// run without it, which would start at the entry before. Every token takes the
/// same layers, so their number and the time they take change no order, and what
/// is kept depends on the requests alone.
void PrefixCache::touch(uint32_t entry) {
  Checkpoint &checkpoint = checkpoints[entry];
  auto tokens = double(checkpoint.length - tree.lengthBefore(entry));
  uint64_t bytes =
      states->slotCopyBytes() +
      states->rowCopyBytes(checkpoint.length -
                           firstCopiedRow(checkpoint.length));
  checkpoint.priority = clock + tokens / double(bytes);
  checkpoint.touched = ++touches;
}

template <typename Consider>
std::optional<uint32_t> PrefixCache::cheapest(Consider consider) const {
  auto rank = [this](uint32_t entry) {
    return std::make_pair(checkpoints[entry].priority,
                          checkpoints[entry].touched);
  };
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < checkpoints.size(); ++i)
    if (consider(checkpoints[i]) && (!found || rank(i) < rank(*found)))
      found = i;
  return found;
}

void PrefixCache::releaseMemory(Checkpoint &checkpoint) {
  counts.bytes -= checkpoint.copy.size();
  for (int32_t page : checkpoint.pages)
    if (--pageEntries[uint32_t(page)] == 0)
      counts.bytes -= states->pageBytes();
  states->dropPages(checkpoint.pages);
  checkpoint.copy.reset();
}

void PrefixCache::evict(uint32_t entry) {
  clock = std::max(clock, checkpoints[entry].priority);
  if (!spill(entry))
    forget(entry);
}

bool PrefixCache::spill(uint32_t entry) {
  Checkpoint &checkpoint = checkpoints[entry];
  uint64_t rows = firstCopiedRow(checkpoint.length);
  uint64_t bytes = checkpoint.copy.size() + states->rowCopyBytes(rows);
  if (options.spillFolder.empty() || bytes > options.spillBudget)
    return false;
  // The rows of the pages go between the two parts of the copy.
  Allocation whole;
  if (!whole.allocate(bytes, "a state to write").ok())
    return false;
  uint64_t slotBytes = states->slotCopyBytes();
  memcpy(whole.data(), checkpoint.copy.data(), slotBytes);
  Holding pages;
  pages.pages = checkpoint.pages;
  states->saveRows(pages, 0, rows, whole.data() + slotBytes);
  if (!device->finish().ok())
    return false;
  memcpy(whole.data() + slotBytes + states->rowCopyBytes(rows),
         checkpoint.copy.data() + slotBytes, checkpoint.copy.size() - slotBytes);

  std::string path = options.spillFolder +
                     formatText("/k3-prefix-%ld-%llx-%llu", long(getpid()),
                                reinterpret_cast<unsigned long long>(this),
                                static_cast<unsigned long long>(filesMade++));
  if (!writeStateFile(path, StateFileKind::prefix, options.model.fingerprint,
                      tree.tokensOf(entry), whole.data(), bytes,
                      checkpoint.fileBytes)
           .ok()) {
    ++counts.spillErrors;
    return false;
  }
  releaseMemory(checkpoint);
  checkpoint.file = std::move(path);
  ++counts.spills;
  ++counts.spillEntries;
  counts.spillBytes += checkpoint.fileBytes;
  while (counts.spillBytes > options.spillBudget)
    forget(*cheapest([](const Checkpoint &each) { return each.spilled(); }));
  return true;
}

void PrefixCache::forget(uint32_t entry) {
  Checkpoint &checkpoint = checkpoints[entry];
  if (checkpoint.spilled()) {
    unlink(checkpoint.file.c_str());
    --counts.spillEntries;
    counts.spillBytes -= checkpoint.fileBytes;
  } else {
    releaseMemory(checkpoint);
  }
  tree.erase(entry);
  checkpoint = Checkpoint();
  unused.push_back(entry);
  ++counts.evictions;
  --counts.entries;
}

uint32_t PrefixCache::ownPages() const {
  uint32_t count = 0;
  for (size_t page = 0; page < pageEntries.size(); ++page)
    count += pageEntries[page] != 0 &&
             states->pageUsers(int32_t(page)) == pageEntries[page];
  return count;
}

void PrefixCache::makeRoom(uint32_t pages) {
  while (states->freePages() < pages) {
    std::optional<uint32_t> entry = cheapest(
        [](const Checkpoint &each) { return !each.pages.empty(); });
    if (!entry)
      return;
    evict(*entry);
  }
}

} // namespace k3rt
