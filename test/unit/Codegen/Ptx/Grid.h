//===- Grid.h - what the blocks of a launch have in common ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/unit/Codegen/Ptx/Program.h"

#include <unordered_map>

namespace k3::test::ptx {

/// How an instruction uses memory.
struct MemoryUse {
  bool writes = false, nonCoherent = false;
  /// Whole for all threads of the device: such accesses do not race with each other.
  bool atomic = false;
  /// By a bulk copy, whose accesses no release or acquire orders.
  bool bulk = false;
};

/// What an access orders between blocks.
struct MemoryOrder {
  bool atomic = false, acquires = false, releases = false;
  /// Of ld, st, atom and red. Scopes smaller than the device order nothing between blocks.
  explicit MemoryOrder(const Instruction &in);
};

/// Of warps, numbered through all blocks: how far each is known to have come.
using WarpTimes = std::vector<std::uint32_t>;
void join(WarpTimes &times, const WarpTimes &more);

/// Order between blocks that run side by side: what one has written the other reads after a release by the one and an
/// acquire by the other of the same place, directly or through further blocks. Inside a block, what orders shared memory
/// orders what the block publishes, too.
class BlockOrder {
public:
  BlockOrder(std::uint32_t blocks, std::uint32_t warpsPerBlock) : blocks(blocks), warpsPerBlock(warpsPerBlock) {}

  /// Notes an access to memory that the kernel may write. Fails if it is a race with another block's.
  void access(Warp &w, std::uint64_t at, std::size_t size, MemoryUse use);
  /// An atomic access has happened; `replaces`: it has written what does not depend on what was there.
  void synchronize(Warp &w, std::uint64_t at, bool reads, bool writes, bool replaces, MemoryOrder order);
  /// A fence for the device.
  void fence(Warp &w);

private:
  struct Entry {
    std::uint32_t warp, clock;
    bool writes, atomic, bulk;
  };
  static constexpr std::uint64_t pageBytes = 256;
  using Page = std::array<std::vector<Entry>, pageBytes>; ///< what is known of each byte
  std::uint32_t blocks, warpsPerBlock;
  std::unordered_map<std::uint64_t, Page> pages;
  std::unordered_map<std::uint64_t, WarpTimes> published; ///< by the place of atomic writes

  std::uint32_t numberOf(const Warp &w) const;
  std::uint32_t timeKnown(const Warp &w, std::uint32_t warp) const;
  WarpTimes timesKnown(const Warp &w) const;
  void learn(Warp &w, const WarpTimes &times) const;
};

struct Grid {
  const PtxMachine::Launch &launch;
  const std::vector<PtxMachine::Region> &regions;
  const Kernel &kernel;
  const std::vector<std::uint8_t> &parameters;
  std::unique_ptr<BlockOrder> order; ///< of a resident launch
  /// Writes to global memory, bulk copies and threads that have ended: what others may wait for.
  std::uint64_t events = 0;
};

} // namespace k3::test::ptx
