//===- Machine.cpp - PtxMachine, blocks and warps -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Block.h"

#include <algorithm>
#include <cmath>

using namespace k3::test;
using namespace k3::test::ptx;

void ptx::fail(const std::string &message) { throw PtxError(message); }

Bits ptx::ofBf16(float value) {
  Bits bits = ofF32(value);
  return std::isnan(value) ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

bool Block::isParameter(std::uint64_t at) const {
  auto begin = reinterpret_cast<std::uint64_t>(grid.parameters.data());
  return at >= begin && at < begin + grid.parameters.size();
}

const PtxMachine::Region *Block::regionAt(std::uint64_t at, std::size_t size, MemoryUse use) const {
  if (!use.writes && isParameter(at) && isParameter(at + size - 1))
    return nullptr;
  const std::vector<PtxMachine::Region> &regions = grid.regions;
  auto it = std::upper_bound(regions.begin(), regions.end(), at, [](std::uint64_t value, const PtxMachine::Region &region) {
    return value < region.begin;
  });
  if (it == regions.begin() || at + size > (--it)->end)
    fail((use.writes ? "writes " : "reads ") + std::to_string(size) + " bytes of global memory outside every buffer" +
         (it != regions.end() && at >= it->begin
              ? ", " + std::to_string(at - it->begin) + " bytes into one of " + std::to_string(it->end - it->begin)
              : ""));
  if (use.writes && !it->writable)
    fail("writes to an input");
  if (use.nonCoherent && it->writable)
    fail("reads memory that the kernel may write through the non-coherent path");
  return &*it;
}

std::uint8_t *Block::global(Warp &w, std::uint64_t at, std::size_t size, MemoryUse use) {
  const PtxMachine::Region *region = regionAt(at, size, use);
  if (region && region->writable && grid.order)
    grid.order->access(w, at, size, use);
  return reinterpret_cast<std::uint8_t *>(at);
}

std::uint8_t *Block::access(Warp &w, unsigned lane, Space space, std::uint64_t at, std::size_t size, MemoryUse use) {
  if (space == Space::Param) {
    if (at + size > grid.parameters.size())
      fail("reads past the parameters");
    return const_cast<std::uint8_t *>(grid.parameters.data()) + at;
  }
  if (at % size != 0)
    fail("misaligned access of " + std::to_string(size) + " bytes");
  if (spaceAt(space, at) == Space::Global) {
    std::uint8_t *memory = global(w, at, size, use);
    if (!isParameter(at))
      w.checkWaited(lane);
    grid.events += use.writes;
    return memory;
  }
  std::uint64_t offset = sharedOffset(at);
  if (auto next = mbarriers.lower_bound(offset > 7 ? offset - 7 : 0); next != mbarriers.end() && next->first < offset + size)
    fail("ordinary access to an mbarrier");
  std::uint8_t *bytes = sharedBytesAt(offset, size, use.writes, w.now(lane), w.clocks);
  if (use.writes)
    noteStore(offset, size, w.thread(lane));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

static std::string nameOf(const Access &access) {
  return access.thread == Access::copy      ? "an asynchronous copy"
         : access.thread == Access::matrix  ? "wgmma"
         : access.thread == Access::several ? "several threads"
                                            : "thread " + std::to_string(access.thread);
}

bool Block::ordered(const Access &before, const Access &after, const Clocks &known) const {
  if (before.actor == after.actor && before.thread >= 0)
    return before.thread == after.thread || before.epoch < after.epoch;
  return known.at[before.actor] >= before.clock;
}

void Block::noteRead(Shadow &s, const Access &who, const Clocks &known) {
  if (s.readers >= 0) {
    readers[static_cast<std::size_t>(s.readers)][who.actor] = who.clock;
    return;
  }
  // Lanes of one warp: any of them stands for the others.
  if (s.reader.thread == Access::nobody || s.reader.actor == who.actor || ordered(s.reader, who, known)) {
    s.reader = who;
    return;
  }
  if (freeReaders.empty()) {
    freeReaders.push_back(static_cast<std::int32_t>(readers.size()));
    readers.emplace_back();
  }
  s.readers = freeReaders.back();
  freeReaders.pop_back();
  auto &clocks = readers[static_cast<std::size_t>(s.readers)];
  clocks.fill(0);
  clocks[s.reader.actor] = s.reader.clock;
  clocks[who.actor] = who.clock;
}

void Block::checkRange(std::uint64_t at, std::size_t size) const {
  if (at + size > shared.size())
    fail("accesses shared memory at " + std::to_string(at) + " of " + std::to_string(shared.size()));
}

std::uint8_t *Block::sharedBytesAt(std::uint64_t at, std::size_t size, bool writes, Access who, const Clocks &known) {
  checkRange(at, size);
  for (std::uint64_t i = at; i < at + size; ++i) {
    Shadow &s = shadow[i];
    auto race = [&](const Access &other, const char *did) {
      fail("race in shared memory at " + std::to_string(i) + ": " + nameOf(who) + (writes ? " writes" : " reads") + " what " +
           nameOf(other) + did);
    };
    if (s.writer.thread != Access::nobody && !ordered(s.writer, who, known))
      race(s.writer, " has written");
    if (!writes) {
      if (s.writer.thread == Access::nobody)
        fail("reads shared memory at " + std::to_string(i) + " that was never written");
      noteRead(s, who, known);
      continue;
    }
    if (s.readers >= 0) {
      const auto &clocks = readers[static_cast<std::size_t>(s.readers)];
      for (unsigned actor = 0; actor < actors; ++actor)
        if (clocks[actor] > known.at[actor] && actor != who.actor)
          race({Access::several}, " have read");
      freeReaders.push_back(s.readers);
      s.readers = -1;
    } else if (s.reader.thread != Access::nobody && !ordered(s.reader, who, known)) {
      race(s.reader, " has read");
    }
    s.reader = Access();
    s.writer = who;
  }
  return shared.data() + at;
}

void Block::stampWrite(std::uint64_t at, std::size_t size, Access who) {
  for (std::uint64_t i = at; i < at + size; ++i)
    shadow[i].writer = who;
}

std::uint8_t *Block::asyncShared(std::uint64_t address, std::size_t size, bool writes, Access who, const Clocks &known) {
  std::uint64_t at = sharedOffset(address);
  checkRange(at, size);
  for (std::uint64_t i = at; i < at + size; ++i) {
    if (writes)
      unfenced[i] = 0;
    else if (unfenced[i])
      fail("the async proxy reads shared memory at " + std::to_string(i) + ", which thread " +
           std::to_string(unfenced[i] - 1) + " wrote with no fence.proxy.async after it");
  }
  return sharedBytesAt(at, size, writes, who, known);
}

void Block::noteStore(std::uint64_t at, std::size_t size, std::int32_t thread) {
  std::fill_n(unfenced.begin() + static_cast<long>(at), size, static_cast<std::uint16_t>(thread + 1));
  unfencedOf[static_cast<std::size_t>(thread)].push_back({at, at + size});
}

void Block::fenceProxy(std::int32_t thread) {
  auto &ranges = unfencedOf[static_cast<std::size_t>(thread)];
  for (auto [begin, end] : ranges)
    for (std::uint64_t i = begin; i < end; ++i)
      if (unfenced[i] == thread + 1)
        unfenced[i] = 0;
  ranges.clear();
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

MBarrier &Block::mbarrier(std::uint64_t address) {
  auto it = mbarriers.find(sharedOffset(address));
  if (it == mbarriers.end())
    fail("no mbarrier at " + std::to_string(sharedOffset(address)));
  return it->second;
}

void Block::settle(MBarrier &barrier) {
  if (barrier.pending < 0)
    fail("more arrivals at an mbarrier than it expects");
  if (barrier.pending == 0 && barrier.bytes == 0) {
    ++barrier.phase;
    barrier.pending = barrier.expected;
    barrier.done.join(barrier.arriving);
  }
}

void Block::arrive(Warp &w, unsigned number, unsigned count, bool waits) {
  NamedBarrier &barrier = barriers[number];
  if (w.live != w.started)
    fail("some threads have left while others wait");
  if (barrier.arrived > 0 && barrier.expected != count)
    fail("barrier " + std::to_string(number) + " is used for " + std::to_string(barrier.expected) + " and for " +
         std::to_string(count) + " threads");
  barrier.expected = count;
  barrier.arrived += 32;
  w.release(barrier.clocks);
  if (waits) {
    w.atBarrier = true;
    barrier.waiting.push_back(&w);
  }
  if (barrier.arrived < barrier.expected)
    return;
  for (Warp *waiting : barrier.waiting) {
    waiting->atBarrier = false;
    waiting->acquire(barrier.clocks);
  }
  barrier = NamedBarrier();
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

Bits Warp::read(const Operand &operand, unsigned lane) {
  switch (operand.kind) {
  case Operand::Register: {
    Bits value = reg(operand.reg, lane);
    return operand.negated ? !value : value;
  }
  case Operand::Immediate:
    return operand.value;
  case Operand::Param:
    return reinterpret_cast<Bits>(block->grid.parameters.data()) + operand.value;
  case Operand::SpecialRegister:
    break;
  default:
    return 0;
  }
  switch (operand.special) {
  case Special::TidX:
    return static_cast<Bits>(thread(lane));
  case Special::NtidX:
    return block->grid.launch.threads;
  case Special::CtaX:
  case Special::CtaY:
  case Special::CtaZ:
    return block->id[static_cast<std::size_t>(operand.special) - static_cast<std::size_t>(Special::CtaX)];
  case Special::NctaX:
  case Special::NctaY:
  case Special::NctaZ:
    return block->grid.launch.grid[static_cast<std::size_t>(operand.special) - static_cast<std::size_t>(Special::NctaX)];
  case Special::Lane:
    return lane;
  case Special::WarpNumber:
    return number;
  case Special::One:
    return 1;
  default:
    return 0;
  }
}

bool Warp::step() {
  while (!paths.empty() && ((paths.back().mask & live) == 0 || paths.back().pc == paths.back().reconverge))
    paths.pop_back();
  if (paths.empty()) {
    live = 0;
    return false;
  }
  Path &path = paths.back();
  std::uint32_t mask = path.mask & live, taken = mask;
  const Instruction &in = kernel->code[static_cast<std::size_t>(path.pc)];
  try {
    if (in.predicate >= 0) {
      taken = 0;
      forLanes(mask, [&](unsigned lane) {
        if ((reg(in.predicate, lane) != 0) != in.predicateNegated)
          taken |= 1u << lane;
      });
    }
    if (in.flow == Instruction::Exit) {
      // The grid behind counts on it that all before this one have ended, too.
      if (kernel->startsEarly && (taken & ~waited))
        fail("some threads end without griddepcontrol.wait");
      live &= ~taken;
      ++block->grid.events;
      ++path.pc;
      return true;
    }
    if (in.flow == Instruction::Branch) {
      std::uint32_t stays = mask & ~taken;
      if (stays == 0) {
        path.pc = in.target;
      } else if (taken == 0) {
        ++path.pc;
      } else {
        int next = path.pc + 1, meet = in.reconverge;
        path.pc = meet;
        if (meet >= static_cast<int>(kernel->code.size()))
          paths.pop_back(); // the ways never meet again
        paths.push_back({next, meet, stays});
        paths.push_back({in.target, meet, taken});
      }
      return true;
    }
    if (taken && in.wholeWarp && taken != started)
      fail("waits for threads of the warp that never come");
    stalled = false;
    if (taken)
      in.execute(*this, taken);
  } catch (const PtxError &error) {
    std::string what = error.what();
    if (what.find("\n  at ") == std::string::npos)
      what += "\n  at line " + std::to_string(in.line) + ", block (" + std::to_string(block->id[0]) + ", " +
              std::to_string(block->id[1]) + ", " + std::to_string(block->id[2]) + "), warp " + std::to_string(number) + ": " +
              in.text;
    throw PtxError(what);
  }
  if (stalled)
    return false;
  ++paths.back().pc;
  return true;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Block::Block(Grid &grid, std::uint64_t sharedBytes, std::array<std::uint32_t, 3> id)
    : grid(grid), number((id[2] * grid.launch.grid[1] + id[1]) * grid.launch.grid[0] + id[0]), id(id),
      shared(sharedBytes, 0xFF), shadow(sharedBytes), unfenced(sharedBytes), unfencedOf(grid.launch.threads),
      random(grid.launch.seed * 1000003ull + id[0] * 1009ull + id[1] * 13ull + id[2]), sharedBytes(sharedBytes) {
  const PtxMachine::Launch &launch = grid.launch;
  const Kernel &kernel = grid.kernel;
  lateMatrices = random() % 2;
  lateCopies = random() % 2;
  warps.resize((launch.threads + 31) / 32);
  for (unsigned w = 0; w < warps.size(); ++w) {
    Warp &warp = warps[w];
    warp.block = this;
    warp.kernel = &kernel;
    warp.number = w;
    // Registers that were never written hold garbage.
    warp.registers.assign(static_cast<std::size_t>(kernel.registers) * 32, ~Bits(0));
    unsigned threads = std::min(32u, launch.threads - 32 * w);
    warp.live = warp.started = threads == 32 ? ~0u : (1u << threads) - 1;
    warp.paths.push_back({0, static_cast<int>(kernel.code.size()), warp.live});
    warp.clocks.at[w] = 1;
    order.push_back(&warp);
  }
}

bool Block::step() {
  bool progress = false, alive = false;
  std::shuffle(order.begin(), order.end(), random);
  for (Warp *warp : order) {
    auto budget = static_cast<int>(1 + random() % 200);
    while (budget-- > 0 && warp->live && !warp->atBarrier && warp->step())
      progress = true;
    alive |= warp->live != 0;
  }
  if (!alive) {
    checkEnd();
    return false;
  }
  // Bulk copies end in any order, sooner or later.
  while (!inFlight.empty() && (!progress || random() % 3 == 0)) {
    std::size_t pick = random() % inFlight.size();
    auto operation = std::move(inFlight[pick]);
    inFlight.erase(inFlight.begin() + static_cast<long>(pick));
    operation();
    ++grid.events;
    progress = true;
  }
  if (!progress) {
    bool left = std::any_of(warps.begin(), warps.end(), [](const Warp &warp) { return warp.live == 0; });
    bool atBarrier = std::any_of(warps.begin(), warps.end(), [](const Warp &warp) { return warp.atBarrier; });
    fail((left && atBarrier ? "some threads have left while others wait" : "waits for threads that never come") + where());
  }
  return true;
}

std::string Block::where() const {
  std::string where;
  for (const Warp &warp : warps)
    if (warp.live && !warp.paths.empty()) {
      const Instruction &in = grid.kernel.code[static_cast<std::size_t>(warp.paths.back().pc)];
      where += "\n  at line " + std::to_string(in.line) + ", block (" + std::to_string(id[0]) + ", " + std::to_string(id[1]) +
               ", " + std::to_string(id[2]) + "), warp " + std::to_string(warp.number) + ": " + in.text;
    }
  return where;
}

void Block::checkEnd() const {
  if (!inFlight.empty())
    fail("a block ends while bulk copies are on their way");
  for (const Warp &warp : warps) {
    if (!warp.matrices.empty())
      fail("a block ends with wgmma operations that it has not waited for");
    for (const AsyncQueue &queue : warp.bulkStores)
      if (!queue.empty())
        fail("a block ends with bulk stores that it has not waited for");
  }
}

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

PtxMachine::PtxMachine(const std::string &text) : program(parse(text)) {
  for (const auto &[name, bytes] : program->globals)
    allow(bytes->data(), bytes->size(), /*writable=*/false);
}

PtxMachine::~PtxMachine() = default;

void PtxMachine::allow(const void *data, std::size_t bytes, bool writable) {
  auto begin = reinterpret_cast<std::uint64_t>(data);
  if (bytes == 0)
    return;
  regions.push_back({begin, begin + bytes, writable});
  std::sort(regions.begin(), regions.end(), [](const Region &x, const Region &y) { return x.begin < y.begin; });
}

namespace {
/// Says when so much has been done without an event that none will come.
class Patience {
public:
  explicit Patience(const Grid &grid) : grid(grid), events(grid.events) {}
  /// After a step of one of `blocks` that run.
  bool ends(std::size_t blocks) {
    steps = events == grid.events ? steps + 1 : 0;
    events = grid.events;
    return steps > stepsOfBlock * blocks;
  }

private:
  static constexpr std::uint64_t stepsOfBlock = 1 << 16; ///< millions of instructions
  const Grid &grid;
  std::uint64_t events, steps = 0;
};
} // namespace

/// They take turns at random, some far ahead of others.
static void runSideBySide(Grid &grid, const std::vector<std::array<std::uint32_t, 3>> &ids, std::uint64_t sharedBytes,
                          std::mt19937 &random) {
  grid.order = std::make_unique<BlockOrder>(static_cast<std::uint32_t>(ids.size()), (grid.launch.threads + 31) / 32);
  std::vector<std::unique_ptr<Block>> blocks;
  for (const auto &id : ids)
    blocks.push_back(std::make_unique<Block>(grid, sharedBytes, id));
  Patience patience(grid);
  while (!blocks.empty()) {
    std::size_t pick = random() % blocks.size();
    bool alive = true;
    for (auto turns = 1 + random() % 8; alive && turns > 0; --turns)
      alive = blocks[pick]->step();
    if (!alive)
      blocks.erase(blocks.begin() + static_cast<long>(pick));
    if (patience.ends(blocks.size())) {
      std::string where;
      for (const auto &block : blocks)
        where += block->where();
      fail("blocks wait for each other for ever" + where);
    }
  }
}

void PtxMachine::run(const Launch &launch) {
  auto it = program->kernels.find(launch.kernel);
  if (it == program->kernels.end())
    fail("no kernel " + launch.kernel);
  const Kernel &kernel = it->second;
  if (launch.params.size() != kernel.params.size())
    fail("kernel " + kernel.name + " takes " + std::to_string(kernel.params.size()) + " parameters, got " +
         std::to_string(launch.params.size()));
  if (launch.threads == 0 || launch.threads > 32 * maxWarps)
    fail("a block has 1 to 1024 threads, got " + std::to_string(launch.threads));
  std::vector<std::uint8_t> params(kernel.paramBytes);
  for (std::size_t i = 0; i < launch.params.size(); ++i) {
    const Parameter &parameter = kernel.params[i];
    if (launch.params[i].size() != parameter.size)
      fail("parameter " + std::to_string(i) + " has " + std::to_string(parameter.size) + " bytes, got " +
           std::to_string(launch.params[i].size()));
    std::memcpy(params.data() + parameter.offset, launch.params[i].data(), launch.params[i].size());
  }
  std::vector<std::array<std::uint32_t, 3>> blocks;
  for (std::uint32_t z = 0; z < launch.grid[2]; ++z)
    for (std::uint32_t y = 0; y < launch.grid[1]; ++y)
      for (std::uint32_t x = 0; x < launch.grid[0]; ++x)
        blocks.push_back({x, y, z});
  std::mt19937 random(launch.seed);
  std::shuffle(blocks.begin(), blocks.end(), random);
  Grid grid{launch, regions, kernel, params, nullptr};
  std::uint64_t sharedBytes = program->sharedStatic + launch.dynamicShared;
  if (launch.resident)
    return runSideBySide(grid, blocks, sharedBytes, random);
  for (const auto &id : blocks) {
    Block block(grid, sharedBytes, id);
    Patience patience(grid);
    while (block.step())
      if (patience.ends(1))
        fail("waits for ever: blocks run one after the other unless the launch is resident" + block.where());
  }
}

std::string k3::test::simulatePtx(const std::string &ptx, const PtxMachine::Launch &launch,
                                  const std::vector<PtxMachine::Region> &memory) {
  try {
    PtxMachine machine(ptx);
    for (const PtxMachine::Region &region : memory)
      machine.allow(reinterpret_cast<const void *>(region.begin), region.end - region.begin, region.writable);
    machine.run(launch);
  } catch (const PtxError &error) {
    return error.what();
  }
  return "";
}
