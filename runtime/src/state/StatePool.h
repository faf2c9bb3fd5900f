//===- StatePool.h - memory of everything sequences carry ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Two pools. A slot holds the recurrent states and convolution windows of one
// sequence, in every layer under the same number. A page holds pageTokens rows
// of the latent cache, in every layer under the same number.
//===----------------------------------------------------------------------===//
#ifndef K3RT_STATE_STATEPOOL_H
#define K3RT_STATE_STATEPOOL_H

#include "runtime/src/device/Device.h"
#include "runtime/src/state/MemoryPlan.h"

#include <optional>
#include <vector>

namespace k3rt {

/// What one sequence holds of the pools.
struct Holding {
  uint32_t slot = 0;
  std::vector<int32_t> pages;
};

class StatePool {
public:
  /// The pools are in the memory of `device`, which outlives them. `poison`:
  /// memory that nothing has been written to reads as NaN. Error:
  /// K3RT_OUT_OF_MEMORY.
  Status init(const k3::artifact::Artifact &index, const MemoryPlan &plan,
              bool poison, Device &device);

  /// Start of the pool of one state, by its ordinal in the artifact; of the
  /// device's memory.
  char *memory(uint32_t state) const { return regions[state].memory; }

  enum class Contents : uint8_t { zero, any };
  /// A slot; nothing when all are taken.
  std::optional<uint32_t> takeSlot(Contents contents = Contents::zero);
  void giveSlotBack(uint32_t slot);
  /// Slot and pages.
  void giveBack(Holding &holding);
  /// Overwrites the slot and the pages that are `holding`'s alone, so that
  /// nothing of them is left for anyone.
  void scrub(const Holding &holding);
  void copySlot(uint32_t from, uint32_t to);

  uint32_t freeSlots() const { return uint32_t(slotStack.size()); }
  uint32_t freePages() const { return uint32_t(pageStack.size()); }
  uint32_t usedPages() const { return numPages - freePages(); }
  uint32_t totalPages() const { return numPages; }
  /// Pages that `tokens` need, and those of them that they fill.
  uint32_t pagesFor(uint64_t tokens) const;
  uint32_t fullPages(uint64_t tokens) const {
    return pageTokens ? uint32_t(tokens / pageTokens) : 0;
  }
  /// 0: there is no cache.
  uint32_t tokensPerPage() const { return pageTokens; }
  uint64_t pageBytes() const { return rowBytes * pageTokens; }
  /// Adds or gives back pages until `holding` has `count`; the caller knows
  /// that enough are free.
  void setPages(Holding &holding, uint32_t count);

  // Pages have users. More than one may read a page; to write, there must be
  // one.

  /// Lists the first `count` pages of `holding` for another user of them, who
  /// gives them back with dropPages or, in a holding, with setPages.
  std::vector<int32_t> sharePages(const Holding &holding, uint32_t count);
  std::vector<int32_t> sharePages(const std::vector<int32_t> &pages);
  void dropPages(std::vector<int32_t> &pages);
  /// Pages with more than one user.
  uint32_t sharedPages() const;
  uint32_t pageUsers(int32_t page) const { return users[uint32_t(page)]; }
  /// Free pages that prepareWrite takes.
  uint32_t pagesToWrite(const Holding &holding, uint64_t from,
                        uint64_t to) const;
  /// Gives `holding` the pages for rows [from, to), all its own: one that
  /// others use is replaced by a copy. Rows before `from` are there.
  void prepareWrite(Holding &holding, uint64_t from, uint64_t to);

  // Copies are in the host's memory and the same for all devices.

  /// A copy of everything a sequence of `tokens` tokens holds: that of its slot
  /// and that of its rows.
  uint64_t copyBytes(uint64_t tokens) const {
    return slotCopyBytes() + rowCopyBytes(tokens);
  }
  void save(const Holding &holding, uint64_t tokens, char *to) const {
    saveSlot(holding.slot, to);
    saveRows(holding, 0, tokens, to + slotCopyBytes());
  }
  /// `holding` has pages of its own for `tokens`.
  void load(Holding &holding, uint64_t tokens, const char *from) {
    loadSlot(holding.slot, from);
    loadRows(holding, 0, tokens, from + slotCopyBytes());
  }

  uint64_t slotCopyBytes() const { return slotBytes; }
  void saveSlot(uint32_t slot, char *to) const;
  void loadSlot(uint32_t slot, const char *from);
  uint64_t rowCopyBytes(uint64_t rows) const { return rowBytes * rows; }
  /// Rows [first, last) of all caches, cache by cache.
  void saveRows(const Holding &holding, uint64_t first, uint64_t last,
                char *to) const;
  void loadRows(Holding &holding, uint64_t first, uint64_t last,
                const char *from);
  /// The data types of a copy in order: calls visit(dtype, bytes).
  template <typename Visit> void visitSlotCopy(Visit visit) const {
    for (const Region &region : regions)
      if (!region.paged)
        visit(region.dtype, region.stride);
  }
  template <typename Visit> void visitRowCopy(uint64_t rows, Visit visit) const {
    for (const Region &region : regions)
      if (region.paged)
        visit(region.dtype, region.stride * rows);
  }

  /// Elements of one state of a sequence, or how many of them there are.
  uint64_t elements(uint32_t state, uint64_t tokens) const;
  void readAsFloat(uint32_t state, const Holding &holding, uint64_t tokens,
                   float *out) const;
  bool isPaged(uint32_t state) const { return regions[state].paged; }
  /// All elements of a state that is not paged, rounded to its type. Error: of
  /// the device.
  Status writeFromFloat(uint32_t state, uint32_t slot, const float *values);

private:
  struct Region {
    char *memory = nullptr;
    uint64_t stride = 0; ///< bytes of a slot, or of a token's row
    k3::artifact::DType dtype = k3::artifact::DType::F32;
    bool paged = false;
  };

  void fillSlot(uint32_t slot, uint8_t byte);
  void fillPage(int32_t page, uint8_t byte);
  int32_t takePage();
  void dropPage(int32_t page);
  /// Calls body(address, bytes) for each page's part of rows [first, last) of a
  /// paged region.
  template <typename Body>
  void eachPage(const Region &region, const Holding &holding, uint64_t first,
                uint64_t last, Body body) const;

  std::vector<Region> regions;
  DeviceBuffer slotMemory, pageMemory;
  std::vector<uint32_t> slotStack;
  std::vector<int32_t> pageStack;
  std::vector<uint32_t> users; ///< per page
  uint32_t numPages = 0, pageTokens = 0;
  uint64_t slotBytes = 0, rowBytes = 0;
  bool poison = false;
  Device *device = nullptr;
};

} // namespace k3rt

#endif // K3RT_STATE_STATEPOOL_H
