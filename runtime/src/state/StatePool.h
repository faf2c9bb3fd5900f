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

#include "runtime/src/base/Memory.h"
#include "runtime/src/base/ThreadPool.h"
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
  /// `poison`: memory that nothing has been written to reads as NaN. `threads`
  /// clears large slots. Error: K3RT_OUT_OF_MEMORY.
  Status init(const k3::artifact::Artifact &index, const MemoryPlan &plan,
              bool poison, ThreadPool &threads);

  /// Start of the pool of one state, by its ordinal in the artifact.
  char *memory(uint32_t state) const { return regions[state].memory; }

  /// A slot whose states are zero; nothing when all are taken.
  std::optional<uint32_t> takeSlot();
  /// Slot and pages.
  void giveBack(Holding &holding);

  uint32_t freePages() const { return uint32_t(pageStack.size()); }
  uint32_t usedPages() const { return numPages - freePages(); }
  uint32_t totalPages() const { return numPages; }
  /// Pages that `tokens` need.
  uint32_t pagesFor(uint64_t tokens) const;
  /// Adds or gives back pages until `holding` has `count`; the caller knows
  /// that enough are free.
  void setPages(Holding &holding, uint32_t count);

  /// A copy of everything a sequence of `tokens` tokens holds.
  uint64_t copyBytes(uint64_t tokens) const;
  void save(const Holding &holding, uint64_t tokens, char *to) const;
  /// `holding` has the pages for `tokens`.
  void load(Holding &holding, uint64_t tokens, const char *from);

  /// Elements of one state of a sequence, or how many of them there are.
  uint64_t elements(uint32_t state, uint64_t tokens) const;
  void readAsFloat(uint32_t state, const Holding &holding, uint64_t tokens,
                   float *out) const;

private:
  struct Region {
    char *memory = nullptr;
    uint64_t stride = 0; ///< bytes of a slot, or of a token's row
    k3::artifact::DType dtype = k3::artifact::DType::F32;
    bool paged = false;
  };

  void fillSlot(uint32_t slot, int byte);
  /// Calls body(offset, bytes) for each page's part of a paged region.
  template <typename Body>
  void eachPage(const Region &region, const Holding &holding, uint64_t tokens,
                Body body) const;

  std::vector<Region> regions;
  Allocation slotMemory, pageMemory;
  std::vector<uint32_t> slotStack;
  std::vector<int32_t> pageStack;
  uint32_t numPages = 0, pageTokens = 0;
  uint64_t slotBytes = 0, rowBytes = 0;
  bool poison = false;
  ThreadPool *threads = nullptr;
};

} // namespace k3rt

#endif // K3RT_STATE_STATEPOOL_H
