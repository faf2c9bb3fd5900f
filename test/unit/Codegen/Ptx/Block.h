//===- Block.h - the state of a running block -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/unit/Codegen/Ptx/Grid.h"

#include <cstring>
#include <deque>
#include <random>

namespace k3::test::ptx {

struct Block;

//===----------------------------------------------------------------------===//
// What happened before what
//===----------------------------------------------------------------------===//

/// Those whose accesses have an order of their own: warps, copies that run beside them (their order is that of their
/// issue), and the wgmma of each warpgroup.
constexpr unsigned maxWarps = 32, copyActor = maxWarps, firstMatrixActor = copyActor + 1, actors = firstMatrixActor + maxWarps / 4;

/// How far each actor is known to have come.
struct Clocks {
  std::array<std::uint32_t, actors> at{};
  WarpTimes others; ///< in resident launches; this block's own are in `at`
  void join(const Clocks &other) {
    for (unsigned i = 0; i < actors; ++i)
      at[i] = std::max(at[i], other.at[i]);
    ptx::join(others, other.others);
  }
};

/// Something an actor did at a time of its clock. `epoch` counts what orders a warp's own threads.
struct Access {
  static constexpr std::int32_t nobody = -1, several = -2, copy = -3, matrix = -4; ///< beside numbers of threads
  std::int32_t thread = nobody;
  std::uint32_t actor = 0, clock = 0, epoch = 0;
};

/// What is known about a byte of shared memory.
struct Shadow {
  Access writer, reader;
  std::int32_t readers = -1; ///< an entry of Block::readers where warps have read it side by side
};

struct MBarrier {
  std::uint32_t expected = 0;
  std::int64_t pending = 0, bytes = 0;
  std::uint64_t phase = 0;
  Clocks arriving, done;
};

struct NamedBarrier {
  unsigned arrived = 0, expected = 0;
  std::vector<Warp *> waiting;
  Clocks clocks;
};

/// Groups of asynchronous operations that are committed and waited for together.
struct AsyncQueue {
  using Group = std::vector<std::function<void()>>;
  Group open;
  std::deque<Group> committed;
  void commit() {
    committed.push_back(std::move(open));
    open.clear();
  }
  /// Finishes all but the newest `keep` groups.
  void wait(std::size_t keep) {
    while (committed.size() > keep) {
      Group group = std::move(committed.front());
      committed.pop_front();
      for (auto &operation : group)
        operation();
    }
  }
  bool empty() const { return open.empty() && committed.empty(); }
};

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

enum class Space { Generic, Global, Shared, Param };

struct Warp {
  Block *block;
  const Kernel *kernel;
  unsigned number; ///< in the block
  std::vector<Bits> registers; ///< 32 lanes of each
  struct Path {
    int pc, reconverge;
    std::uint32_t mask;
  };
  std::vector<Path> paths;            ///< the last one runs
  std::uint32_t started = 0, live = 0; ///< threads there are; those that have not returned
  bool atBarrier = false;
  std::uint32_t waited = 0; ///< threads for which the grid in front has ended
  bool stalled = false; ///< the current instruction must be tried again
  Clocks clocks;
  WarpTimes fenced; ///< what relaxed atomic writes publish
  WarpTimes met;    ///< what a fence makes known: of what relaxed atomic accesses have read
  std::uint32_t epoch = 1;
  AsyncQueue copies[32], bulkStores[32], matrices;
  std::uint64_t matrixGroups = 0;   ///< committed so far
  std::uint32_t matrixClock = 0;    ///< of the last wgmma that is done

  Bits &reg(int index, unsigned lane) { return registers[static_cast<std::size_t>(index) * 32 + lane]; }
  Bits read(const Operand &operand, unsigned lane);
  void write(const Operand &operand, unsigned lane, Bits value) {
    if (operand.kind == Operand::Register)
      reg(operand.reg, lane) = value;
  }
  std::uint64_t address(const Operand &operand, unsigned lane) {
    return (operand.reg >= 0 ? reg(operand.reg, lane) : 0) + operand.value;
  }
  /// Before accesses to global memory.
  void checkWaited(unsigned lane) const {
    if (kernel->startsEarly && !(waited >> lane & 1))
      fail("thread " + std::to_string(thread(lane)) + " touches global memory before griddepcontrol.wait");
  }
  std::int32_t thread(unsigned lane) const { return static_cast<std::int32_t>(number * 32 + lane); }
  Access now(unsigned lane) const { return {thread(lane), number, clocks.at[number], epoch}; }
  unsigned matrixActor() const { return firstMatrixActor + number / 4; }

  /// Everything so far is published in `to`.
  void release(Clocks &to) {
    to.join(clocks);
    ++clocks.at[number];
  }
  /// What `from` tells is known from now on, by all threads of the warp.
  void acquire(const Clocks &from) {
    clocks.join(from);
    ++epoch;
  }
  /// Executes one instruction. False if it has to wait.
  bool step();
};

template <class F> void forLanes(std::uint32_t mask, F f) {
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      f(lane);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

struct Block {
  Grid &grid;
  std::uint32_t number; ///< in the grid
  std::array<std::uint32_t, 3> id;
  std::vector<std::uint8_t> shared;
  std::vector<Shadow> shadow;
  std::vector<std::array<std::uint32_t, actors>> readers;
  std::vector<std::int32_t> freeReaders;
  /// Per byte: 1 + the thread whose ordinary store no proxy fence has followed, or 0; and the ranges of each thread.
  std::vector<std::uint16_t> unfenced;
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> unfencedOf;
  std::map<std::uint64_t, MBarrier> mbarriers;
  NamedBarrier barriers[16];
  std::vector<Warp> warps;
  std::vector<Warp *> order; ///< in which they take their next turns
  std::deque<std::function<void()>> inFlight; ///< bulk copies
  std::uint32_t asyncClock = 0; ///< of copies and of wgmma
  std::mt19937_64 random;
  /// wgmma and cp.async work when they are issued, or as late as the program allows.
  bool lateMatrices, lateCopies;
  std::uint64_t sharedBytes; ///< with what is declared in the module

  Block(Grid &grid, std::uint64_t sharedBytes, std::array<std::uint32_t, 3> id);
  /// Each warp takes a turn. False when all have ended.
  bool step();
  /// Where the warps are, for messages.
  std::string where() const;

  /// Host address of `size` bytes.
  std::uint8_t *access(Warp &w, unsigned lane, Space space, std::uint64_t at, std::size_t size, MemoryUse use);
  bool isParameter(std::uint64_t at) const;
  /// What the kernel may access there; null: a parameter.
  const PtxMachine::Region *regionAt(std::uint64_t at, std::size_t size, MemoryUse use) const;
  /// Global memory, checked and noted for `w`.
  std::uint8_t *global(Warp &w, std::uint64_t at, std::size_t size, MemoryUse use);
  /// Shared memory, checked and noted for `who`, who knows of `known`.
  std::uint8_t *sharedBytesAt(std::uint64_t at, std::size_t size, bool writes, Access who, const Clocks &known);
  /// The same for instructions of the async proxy, which see ordinary stores only after a fence.
  std::uint8_t *asyncShared(std::uint64_t at, std::size_t size, bool writes, Access who, const Clocks &known);
  /// Notes an access again, at the time when it is over.
  void stampWrite(std::uint64_t at, std::size_t size, Access who);
  void noteStore(std::uint64_t at, std::size_t size, std::int32_t thread);
  void fenceProxy(std::int32_t thread);

  MBarrier &mbarrier(std::uint64_t address);
  void settle(MBarrier &barrier);
  void arrive(Warp &w, unsigned barrier, unsigned count, bool waits);

private:
  void checkEnd() const;
  bool ordered(const Access &before, const Access &after, const Clocks &known) const;
  void noteRead(Shadow &s, const Access &who, const Clocks &known);
  void checkRange(std::uint64_t at, std::size_t size) const;
};

/// An address of shared memory as an offset, whether it is one or generic.
inline std::uint64_t sharedOffset(std::uint64_t address) {
  return address >= sharedWindow && address < sharedWindow + (Bits(1) << 32) ? address - sharedWindow : address;
}
/// The space of an address, also where the instruction names none.
inline Space spaceAt(Space space, std::uint64_t address) {
  return space != Space::Generic ? space : sharedOffset(address) != address ? Space::Shared : Space::Global;
}

inline float asF32(Bits bits) {
  auto low = static_cast<std::uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, 4);
  return value;
}
inline Bits ofF32(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline double asF64(Bits bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}
inline Bits ofF64(double value) {
  Bits bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}
inline float asBf16(Bits bits) { return asF32((bits & 0xFFFF) << 16); }
/// Rounds to nearest, ties to even.
Bits ofBf16(float value);

} // namespace k3::test::ptx
