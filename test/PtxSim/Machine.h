//===- Machine.h - state of one thread block ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/PtxSim/Program.h"

#include <functional>
#include <random>

namespace k3::ptxsim {

using Lanes = std::array<std::uint64_t, 32>;

/// A copy or an arrival that happens later.
struct Async {
  enum class Kind : std::uint8_t { copy, arrive, load, store } kind;
  int warp, lane; ///< lane -1: of several lanes
  int group;      ///< of copies: per warp, of stores: per thread
  std::function<void()> perform;
};

struct Warp {
  int number = 0;
  std::vector<Lanes> regs;
  std::array<std::uint32_t, 32> pc{};
  std::uint32_t alive = 0; ///< lanes that have not returned
  std::uint32_t deferred = 0; ///< lanes whose last wait failed: others go first
  int waitingBarrier = -1;
  bool stalled = false; ///< nothing but the world outside can let it go on
  // wgmma
  std::vector<std::uint32_t> pending; ///< per register: number of the wgmma group that writes it, 0 for none
  std::vector<int> pendingRegisters;
  std::uint32_t group = 1;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> reads; ///< group, 16-byte unit of shared memory
  // cp.async and bulk stores of this warp, in groups
  int copyGroup = 1;
  std::array<int, 32> bulkGroup{};
};

struct Barrier {
  std::uint32_t arrived = 0, expected = 0;
  std::vector<int> waiting;
};

struct Mbarrier {
  std::uint32_t count = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint32_t phase = 0;
};

class Machine {
public:
  Machine(const Kernel &kernel, const Launch &launch, const Options &options, std::uint64_t block, Statistics &statistics);
  void run();

private:
  const Kernel &kernel;
  const Launch &launch;
  const Options &options;
  Statistics &statistics;
  std::array<std::uint32_t, 3> block;
  std::mt19937_64 random;
  std::vector<Warp> warps;
  std::vector<unsigned char> shared;
  std::vector<std::uint16_t> unfenced; ///< per byte of shared memory: thread + 1 whose store is not fenced yet
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> stores; ///< the same per thread: from, to
  std::vector<std::uint16_t> readers;  ///< per 16 bytes: wgmmas in flight that read it
  std::vector<std::vector<unsigned char>> local;
  std::map<int, Barrier> barriers;
  std::map<std::uint32_t, Mbarrier> mbarriers;
  std::vector<Async> asyncs;
  std::vector<unsigned char> params, constants;
  std::vector<Range> ranges;
  const Instruction *current = nullptr;
  const Warp *currentWarp = nullptr;
  std::uint64_t executed = 0;
  std::size_t lastRange = 0;

  [[noreturn]] void fail(const std::string &what, int lane = -1) const;
  // Execution.
  void step(Warp &warp);
  void execute(Warp &warp, const Instruction &in, std::uint32_t mask);
  void arithmetic(Warp &warp, const Instruction &in, std::uint32_t mask);
  void convert(Warp &warp, const Instruction &in, std::uint32_t mask);
  void move(Warp &warp, const Instruction &in, std::uint32_t mask);
  void memory(Warp &warp, const Instruction &in, std::uint32_t mask);
  void atomics(Warp &warp, const Instruction &in, std::uint32_t mask);
  void collective(Warp &warp, const Instruction &in, std::uint32_t mask);
  void barrier(Warp &warp, const Instruction &in);
  void mma(Warp &warp, const Instruction &in);
  void matrixAccess(Warp &warp, const Instruction &in);
  void wgmma(Warp &warp, const Instruction &in);
  static std::uint32_t lastGroup(const Warp &warp, const Instruction &wait);
  bool isWgmmaIssued(const Warp &warp, const Instruction &wait) const;
  void wgmmaWait(Warp &warp, std::uint32_t lastGroup);
  void copies(Warp &warp, const Instruction &in, std::uint32_t mask);
  void tensorCopy(Warp &warp, const Instruction &in, int lane);
  void mbarrier(Warp &warp, const Instruction &in, std::uint32_t mask);
  void checkPending(Warp &warp, const Instruction &in);
  void performAsync(std::size_t index);
  /// Performs what `which` selects, in order of issue.
  void flush(const std::function<bool(const Async &)> &which);
  void settleBarriers();
  void wakeAll();

  // Operands.
  std::uint64_t special(const Warp &warp, Special which, int lane) const;
  const Lanes &get(const Warp &warp, const Operand &operand, Lanes &scratch) const;
  std::uint64_t get(const Warp &warp, const Operand &operand, int lane) const;
  void set(Warp &warp, const Operand &operand, int lane, std::uint64_t value);
  std::uint64_t addressOf(const Warp &warp, const Operand &operand, int lane) const;
  std::uint32_t sharedAddress(const Warp &warp, const Operand &operand, int lane) const;

  // Memory.
  unsigned char *global(std::uint64_t address, std::uint64_t bytes, bool write, int lane);
  unsigned char *sharedAt(std::uint32_t address, std::uint32_t bytes, int lane);
  /// The memory behind an address of `space`; stores to shared memory are noted.
  unsigned char *resolve(Warp &warp, Space space, std::uint64_t address, std::uint32_t bytes, bool write, int lane);
  void noteStore(std::uint32_t address, std::uint32_t bytes, int thread);
  void noteAsyncWrite(std::uint32_t address, std::uint32_t bytes);
  void checkFenced(std::uint32_t address, std::uint32_t bytes, const char *reader);
  void completeBytes(std::uint32_t bar, std::int64_t bytes);
  void settle(Mbarrier &bar);
  Mbarrier &barAt(std::uint32_t address, int lane);
  float element(std::uint32_t address, std::uint32_t swizzle, std::vector<std::uint32_t> *units);
};

float bf16ToFloat(std::uint16_t bits);
std::uint16_t floatToBf16(float value, char round = 'n');
float f16ToFloat(std::uint16_t bits);
std::uint16_t floatToF16(float value);
float asFloat(std::uint64_t bits);
std::uint64_t asBits(float value);

} // namespace k3::ptxsim
