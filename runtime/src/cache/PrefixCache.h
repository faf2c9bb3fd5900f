//===- PrefixCache.h - states of prefixes that were computed before ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A recurrent state cannot be cut back, so only prefixes at whose end the whole
// state was kept can be reused. A checkpoint is that whole state: a copy of the
// slot (recurrent states and convolution windows), the full cache pages, which
// nobody writes to any more and which it shares, and a copy of the rows in the
// last, partly filled page. It is published as a copy: no sequence that is
// running can write to it. What memory has no room for may go on as a file.
//===----------------------------------------------------------------------===//
#ifndef K3RT_CACHE_PREFIXCACHE_H
#define K3RT_CACHE_PREFIXCACHE_H

#include "runtime/src/cache/TokenTree.h"
#include "runtime/src/device/Device.h"
#include "runtime/src/state/StateFile.h"
#include "runtime/src/state/StatePool.h"

namespace k3rt {

/// Counts since the engine was opened, and what there is now.
struct PrefixCacheStats {
  uint64_t lookups = 0, hits = 0;
  uint64_t askedTokens = 0, reusedTokens = 0;
  uint64_t stored = 0;
  uint64_t known = 0;     ///< not stored: was there
  uint64_t nonFinite = 0; ///< not stored: NaN or infinity in the state
  uint64_t noRoom = 0;    ///< not stored: larger than the budget, or no memory
  uint64_t evictions = 0; ///< gone for good
  uint64_t entries = 0, bytes = 0;
  // Files: written, read again, found damaged or impossible to write, and the
  // ones there are.
  uint64_t spills = 0, spillLoads = 0, spillErrors = 0;
  uint64_t spillEntries = 0, spillBytes = 0;
};

struct PrefixCacheOptions {
  /// Bytes of copies and of pages held; 0 = nothing is ever kept.
  uint64_t budget = 0;
  /// Folder for entries that memory has no room for; empty = they are given up.
  /// The files go with the cache.
  std::string spillFolder;
  uint64_t spillBudget = 0; ///< bytes
  StateFileModel model;     ///< used with a spillFolder
};

class PrefixCache {
public:
  PrefixCache() = default;
  ~PrefixCache();
  PrefixCache(const PrefixCache &) = delete;
  PrefixCache &operator=(const PrefixCache &) = delete;

  /// `states`, which are in the memory of `device`, outlive the cache.
  void init(StatePool &states, Device &device,
            const PrefixCacheOptions &options);
  bool enabled() const { return options.budget != 0; }

  /// Puts the state after the longest known proper prefix of tokens[0 .. count)
  /// into `holding`, whose states are zero and which has no pages; `outLength`
  /// is the length of the prefix. It takes at most `mostPages` of the free pages:
  /// one for rows that do not fill a page, all for what is in a file. 0: nothing
  /// was known, or these are too few; nothing has changed. Error: of the device.
  Status attach(const int32_t *tokens, uint64_t count, uint32_t mostPages,
                Holding &holding, uint64_t &outLength);

  /// Keeps the state after `tokens`, which is that of `holding`, if it is
  /// finite and there is room. Error: of the device.
  Status store(const std::vector<int32_t> &tokens, const Holding &holding);

  /// Gives up pages of entries until `pages` are free or no entry holds any.
  void makeRoom(uint32_t pages);

  /// Pages that only entries hold.
  uint32_t ownPages() const;

  PrefixCacheStats stats() const { return counts; }

private:
  struct Checkpoint {
    uint64_t length = 0; ///< tokens; 0 = unused
    std::vector<int32_t> pages;
    Allocation copy;  ///< of the slot, then of the rows behind the pages
    std::string file; ///< not empty: everything is there, and nothing above
    uint64_t fileBytes = 0;
    double priority = 0;  ///< see touch
    uint64_t touched = 0; ///< number of the touch

    bool resident() const { return length != 0 && file.empty(); }
    bool spilled() const { return !file.empty(); }
  };

  uint64_t firstCopiedRow(uint64_t length) const;
  /// Looks at the copy of the slot and at rows from `firstRow` on.
  Status checkFinite(const Checkpoint &checkpoint, const Holding &holding,
                     uint64_t firstRow, bool &outFinite) const;
  /// Puts a whole copy into `holding`, which has the pages: that of the slot, of
  /// the rows of full pages (`hasAll`), and of those behind them.
  void load(Holding &holding, uint64_t length, const char *copy, bool hasAll);
  Status attachFile(uint32_t entry, Holding &holding, bool &outUsable);
  void touch(uint32_t entry);
  /// Gives up what an entry has in memory; to a file if there may be one.
  void evict(uint32_t entry);
  bool spill(uint32_t entry);
  void releaseMemory(Checkpoint &checkpoint);
  void forget(uint32_t entry);
  /// The entry of lowest priority among those for which `consider` is true; of
  /// equal ones that which has not been used for longest.
  template <typename Consider>
  std::optional<uint32_t> cheapest(Consider consider) const;

  StatePool *states = nullptr;
  Device *device = nullptr;
  PrefixCacheOptions options;
  uint64_t filesMade = 0;
  TokenTree tree;
  std::vector<Checkpoint> checkpoints;
  std::vector<uint32_t> unused;
  std::vector<uint32_t> pageEntries; ///< per page: entries that hold it
  /// Grows to the priority of what is evicted, so that an entry that is not
  /// used falls behind those that are (GreedyDual-Size; Cao and Irani 1997).
  double clock = 0;
  uint64_t touches = 0;
  PrefixCacheStats counts;
};

} // namespace k3rt

#endif // K3RT_CACHE_PREFIXCACHE_H
