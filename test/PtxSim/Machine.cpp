//===- Machine.cpp - run one thread block ---------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/PtxSim/Machine.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace k3::ptxsim;

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

Module::Module(const std::string &ptx) : all(parseModule(ptx)) {}
Module::~Module() = default;

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto &kernel : all)
    names.push_back(kernel->name);
  return names;
}

const Kernel &Module::find(const std::string &name) const {
  for (const auto &kernel : all)
    if (kernel->name == name)
      return *kernel;
  throw std::runtime_error("no kernel '" + name + "' in the PTX");
}

const std::vector<Param> &Module::params(const std::string &kernel) const { return find(kernel).params; }

Statistics Module::run(const std::string &kernel, const Launch &launch, const Options &options) const {
  return find(kernel).run(launch, options);
}

ParamBuilder &ParamBuilder::add(const void *data, std::size_t size) {
  if (next >= layout.size() || layout[next].bytes != size)
    throw std::runtime_error("parameter " + std::to_string(next) + " of the kernel has " +
                             (next < layout.size() ? std::to_string(layout[next].bytes) : std::string("no")) +
                             " bytes, got " + std::to_string(size));
  bytes.resize(layout[next].offset + size);
  std::memcpy(&bytes[layout[next++].offset], data, size);
  return *this;
}

std::vector<unsigned char> ParamBuilder::take() {
  if (next != layout.size())
    throw std::runtime_error("the kernel has " + std::to_string(layout.size()) + " parameters, got " + std::to_string(next));
  return std::move(bytes);
}

Statistics Kernel::run(const Launch &launch, const Options &options) const {
  if (maxThreads && launch.threads > maxThreads)
    throw std::runtime_error(name + ": launched with " + std::to_string(launch.threads) + " threads, at most " +
                             std::to_string(maxThreads) + " allowed");
  if (launch.params.size() != paramBytes)
    throw std::runtime_error(name + ": has " + std::to_string(paramBytes) + " bytes of parameters, got " +
                             std::to_string(launch.params.size()));
  if (launch.dynamicSharedBytes + sharedBytes > 232448)
    throw std::runtime_error(name + ": more shared memory than a block can have");
  Statistics statistics;
  std::vector<std::uint64_t> blocks = options.blocks;
  if (blocks.empty())
    for (std::uint64_t i = 0; i < std::uint64_t(launch.grid[0]) * launch.grid[1] * launch.grid[2]; ++i)
      blocks.push_back(i);
  for (std::uint64_t block : blocks)
    Machine(*this, launch, options, block, statistics).run();
  return statistics;
}

//===----------------------------------------------------------------------===//
// Scheduling
//===----------------------------------------------------------------------===//

Machine::Machine(const Kernel &kernel, const Launch &launch, const Options &options, std::uint64_t number,
                 Statistics &statistics)
    : kernel(kernel), launch(launch), options(options), statistics(statistics),
      block{static_cast<std::uint32_t>(number % launch.grid[0]),
            static_cast<std::uint32_t>(number / launch.grid[0] % launch.grid[1]),
            static_cast<std::uint32_t>(number / launch.grid[0] / launch.grid[1])},
      random(options.seed * 7919 + number), shared(kernel.sharedBytes + launch.dynamicSharedBytes, 0xFF),
      unfenced(shared.size(), 0), stores(launch.threads), readers(shared.size() / 16 + 1, 0),
      params(launch.params), constants(kernel.constants), ranges(launch.memory) {
  params.resize(params.size() + 64);
  ranges.push_back({params.data(), params.size(), false});
  warps.resize((launch.threads + 31) / 32);
  if (kernel.localBytes)
    local.assign(launch.threads, std::vector<unsigned char>(kernel.localBytes, 0xFF));
  for (std::size_t w = 0; w < warps.size(); ++w) {
    warps[w].number = static_cast<int>(w);
    warps[w].regs.resize(kernel.registers);
    for (Lanes &lanes : warps[w].regs)
      lanes.fill(0x7ff8dead7fc0dead); // NaN in every format, no usable address
    warps[w].pending.resize(kernel.registers);
    std::uint32_t lanes = std::min<std::uint32_t>(32, launch.threads - static_cast<std::uint32_t>(w) * 32);
    warps[w].alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
  }
}

void Machine::fail(const std::string &what, int lane) const {
  std::string where = kernel.name;
  if (current)
    where += ", PTX line " + std::to_string(current->line) + " '" + current->text + "'";
  where += ", block (" + std::to_string(block[0]) + ", " + std::to_string(block[1]) + ", " + std::to_string(block[2]) + ")";
  if (currentWarp)
    where += lane >= 0 ? ", thread " + std::to_string(currentWarp->number * 32 + lane)
                       : ", warp " + std::to_string(currentWarp->number);
  throw std::runtime_error(where + ": " + what);
}

void Machine::wakeAll() {
  for (Warp &warp : warps) {
    warp.stalled = false;
    warp.deferred = 0;
  }
}

void Machine::run() {
  std::vector<std::size_t> runnable;
  while (true) {
    runnable.clear();
    bool alive = false;
    for (std::size_t w = 0; w < warps.size(); ++w) {
      alive |= warps[w].alive != 0;
      if (warps[w].alive && warps[w].waitingBarrier < 0 && !warps[w].stalled)
        runnable.push_back(w);
    }
    if (!asyncs.empty() && (runnable.empty() || random() % 4 == 0)) {
      performAsync(random() % asyncs.size());
      continue;
    }
    if (!alive)
      break;
    if (runnable.empty()) {
      std::string state;
      for (const Warp &warp : warps)
        if (warp.alive) {
          int lane = __builtin_ctz(warp.alive);
          const Instruction &at = kernel.code[warp.pc[lane]];
          state += "\n  warp " + std::to_string(warp.number) + " at line " + std::to_string(at.line) +
                   (warp.waitingBarrier >= 0 ? ", after barrier " + std::to_string(warp.waitingBarrier) : "");
        }
      current = nullptr;
      currentWarp = nullptr;
      fail("deadlock" + state);
    }
    Warp &warp = warps[runnable[random() % runnable.size()]];
    for (std::uint64_t steps = 1 + random() % 200; steps > 0; --steps) {
      step(warp);
      if (!warp.alive || warp.waitingBarrier >= 0 || warp.stalled)
        break;
    }
    if (executed > options.maxInstructions)
      fail("does not come to an end");
  }
  current = nullptr;
  currentWarp = nullptr;
  for (const Warp &warp : warps)
    if (!warp.pendingRegisters.empty())
      fail("ends with a wgmma that nobody waited for");
  statistics.instructions += executed;
}

/// Whether all lanes of a warp must execute `in` together.
static bool isAligned(const Instruction &in) {
  switch (in.op) {
  case Op::barSync: case Op::barArrive: case Op::mma: case Op::ldmatrix: case Op::stmatrix: case Op::movmatrix:
  case Op::wgmma: case Op::wgmmaCommit: case Op::wgmmaWait: case Op::wgmmaFence:
  case Op::shfl: case Op::vote: case Op::redux: case Op::elect: case Op::bar_warp:
    return true;
  default:
    return false;
  }
}

void Machine::step(Warp &warp) {
  currentWarp = &warp;
  // The lanes that are furthest behind go on, so that branches meet again; lanes that wait for others step aside.
  std::uint32_t candidates = warp.alive & ~warp.deferred ? warp.alive & ~warp.deferred : warp.alive, mask = 0;
  std::uint32_t pc = 0;
  while (true) {
    if (!candidates) {
      if (!(warp.deferred & warp.alive))
        fail("lanes of a warp do not meet at an instruction for all of them");
      warp.stalled = true;
      return;
    }
    pc = ~0u;
    for (int lane = 0; lane < 32; ++lane)
      if (candidates >> lane & 1)
        pc = std::min(pc, warp.pc[lane]);
    mask = 0;
    for (int lane = 0; lane < 32; ++lane)
      if ((warp.alive >> lane & 1) && warp.pc[lane] == pc)
        mask |= 1u << lane;
    const Instruction &in = kernel.code[pc];
    current = &in;
    if (!isAligned(in) || mask == warp.alive)
      break;
    std::uint32_t members = warp.alive;
    if (in.op == Op::shfl || in.op == Op::vote || in.op == Op::redux || in.op == Op::elect || in.op == Op::bar_warp)
      members &= static_cast<std::uint32_t>(get(warp, in.args.back()[0], __builtin_ctz(mask)));
    if ((members & ~mask) == 0)
      break;
    candidates &= ~mask;
  }
  const Instruction &in = kernel.code[pc];
  ++executed;
  if (warp.pendingRegisters.size())
    checkPending(warp, in);
  std::uint32_t active = mask;
  if (in.guard >= 0)
    for (int lane = 0; lane < 32; ++lane)
      if (((warp.regs[in.guard][lane] & 1) != 0) == in.guardNot)
        active &= ~(1u << lane);
  if (in.op == Op::bra || in.op == Op::brx) {
    for (int lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) {
        if (!(active >> lane & 1))
          warp.pc[lane] = pc + 1;
        else if (in.op == Op::bra)
          warp.pc[lane] = in.target;
        else
          warp.pc[lane] = in.targets.at(get(warp, in.args[0][0], lane) & 0xffffffff);
      }
    return;
  }
  if (in.op == Op::wgmmaWait && !isWgmmaIssued(warp, in)) {
    warp.stalled = true;
    return;
  }
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      warp.pc[lane] = pc + 1;
  if (in.op == Op::ret) {
    warp.alive &= ~active;
    if (!warp.alive)
      settleBarriers();
    return;
  }
  if (!active)
    return;
  if (isAligned(in) && active != mask)
    fail("an instruction for all lanes is predicated per lane");
  execute(warp, in, active);
}

void Machine::execute(Warp &warp, const Instruction &in, std::uint32_t mask) {
  switch (in.op) {
  case Op::nop:
    return;
  case Op::trap:
    fail("trap");
  case Op::mov: case Op::cvta: case Op::mapa: case Op::isspacep: case Op::activemask:
    return move(warp, in, mask);
  case Op::cvt:
    return convert(warp, in, mask);
  case Op::ld: case Op::st:
    return memory(warp, in, mask);
  case Op::atom:
    return atomics(warp, in, mask);
  case Op::barSync: case Op::barArrive:
    return barrier(warp, in);
  case Op::bar_warp:
    return;
  case Op::shfl: case Op::vote: case Op::redux: case Op::elect:
    return collective(warp, in, mask);
  case Op::mma:
    return mma(warp, in);
  case Op::ldmatrix: case Op::stmatrix: case Op::movmatrix:
    return matrixAccess(warp, in);
  case Op::wgmma:
    return wgmma(warp, in);
  case Op::wgmmaFence:
    return;
  case Op::wgmmaCommit:
    ++warp.group;
    wakeAll();
    return;
  case Op::wgmmaWait:
    return wgmmaWait(warp, lastGroup(warp, in));
  case Op::fenceProxyAsync:
    for (int lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) {
        int thread = warp.number * 32 + lane;
        for (auto [from, to] : stores[thread])
          for (std::uint32_t i = from; i < to; ++i)
            if (unfenced[i] == thread + 1)
              unfenced[i] = 0;
        stores[thread].clear();
      }
    return;
  case Op::cpAsync: case Op::cpAsyncCommit: case Op::cpAsyncWait: case Op::cpAsyncArrive: case Op::bulkLoad:
  case Op::tensorLoad: case Op::bulkStore: case Op::tensorStore: case Op::bulkCommit: case Op::bulkWait:
    return copies(warp, in, mask);
  case Op::mbarInit: case Op::mbarInval: case Op::mbarArrive: case Op::mbarExpect: case Op::mbarComplete: case Op::mbarWait:
    return mbarrier(warp, in, mask);
  default:
    return arithmetic(warp, in, mask);
  }
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

std::uint64_t Machine::special(const Warp &warp, Special which, int lane) const {
  switch (which) {
  case Special::tidX: return static_cast<std::uint64_t>(warp.number * 32 + lane);
  case Special::ntidX: return launch.threads;
  case Special::tidY: case Special::tidZ: case Special::zero: case Special::smid: return 0;
  case Special::ntidY: case Special::ntidZ: case Special::one: case Special::nsmid: return 1;
  case Special::ctaidX: return block[0];
  case Special::ctaidY: return block[1];
  case Special::ctaidZ: return block[2];
  case Special::nctaidX: return launch.grid[0];
  case Special::nctaidY: return launch.grid[1];
  case Special::nctaidZ: return launch.grid[2];
  case Special::laneid: return static_cast<std::uint64_t>(lane);
  case Special::warpid: return static_cast<std::uint64_t>(warp.number);
  case Special::clock: return executed;
  case Special::lanemaskLt: return (1u << lane) - 1;
  case Special::lanemaskLe: return (2ull << lane) - 1;
  case Special::lanemaskGt: return ~((2ull << lane) - 1) & 0xffffffff;
  case Special::lanemaskGe: return ~((1ull << lane) - 1) & 0xffffffff;
  case Special::lanemaskEq: return 1u << lane;
  }
  return 0;
}

const Lanes &Machine::get(const Warp &warp, const Operand &operand, Lanes &scratch) const {
  switch (operand.kind) {
  case Operand::Kind::reg:
    if (!operand.negated)
      return warp.regs[operand.reg];
    for (int lane = 0; lane < 32; ++lane)
      scratch[lane] = ~warp.regs[operand.reg][lane] & 1;
    return scratch;
  case Operand::Kind::special:
    for (int lane = 0; lane < 32; ++lane)
      scratch[lane] = special(warp, operand.special, lane);
    return scratch;
  default:
    scratch.fill(operand.imm);
    return scratch;
  }
}

std::uint64_t Machine::get(const Warp &warp, const Operand &operand, int lane) const {
  switch (operand.kind) {
  case Operand::Kind::reg:
    return operand.negated ? ~warp.regs[operand.reg][lane] & 1 : warp.regs[operand.reg][lane];
  case Operand::Kind::special:
    return special(warp, operand.special, lane);
  default:
    return operand.imm;
  }
}

void Machine::set(Warp &warp, const Operand &operand, int lane, std::uint64_t value) {
  if (operand.kind == Operand::Kind::reg)
    warp.regs[operand.reg][lane] = value;
}

std::uint64_t Machine::addressOf(const Warp &warp, const Operand &operand, int lane) const {
  return (operand.reg >= 0 ? warp.regs[operand.reg][lane] : 0) + operand.imm;
}

std::uint32_t Machine::sharedAddress(const Warp &warp, const Operand &operand, int lane) const {
  std::uint64_t address = addressOf(warp, operand, lane);
  if (address >= sharedWindow && address < localWindow)
    address -= sharedWindow;
  return static_cast<std::uint32_t>(address);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

unsigned char *Machine::global(std::uint64_t address, std::uint64_t bytes, bool write, int lane) {
  for (std::size_t tries = 0; tries < ranges.size(); ++tries) {
    const Range &range = ranges[lastRange];
    std::uint64_t start = reinterpret_cast<std::uint64_t>(range.data);
    if (address >= start && address + bytes <= start + range.bytes) {
      if (write && !range.writable)
        fail("writes to memory " + std::to_string(lastRange) + ", which is read-only", lane);
      (write ? statistics.storedBytes : statistics.loadedBytes) += bytes;
      return reinterpret_cast<unsigned char *>(address);
    }
    lastRange = (lastRange + 1) % ranges.size();
  }
  std::string nearest;
  std::uint64_t best = ~0ull;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::uint64_t start = reinterpret_cast<std::uint64_t>(ranges[i].data);
    std::uint64_t distance = address < start ? start - address : address - start;
    if (distance < best) {
      best = distance;
      nearest = "; memory " + std::to_string(i) + " of " + std::to_string(ranges[i].bytes) + " bytes is nearest, at " +
                (address < start ? "-" : "+") + std::to_string(distance);
    }
  }
  fail((write ? "writes to " : "reads from ") + hex(address) + ", outside of all memory" + nearest, lane);
}

unsigned char *Machine::sharedAt(std::uint32_t address, std::uint32_t bytes, int lane) {
  if (address < sharedBase || address + bytes > sharedBase + shared.size())
    fail("shared address " + std::to_string(static_cast<std::int64_t>(address) - sharedBase) + " + " +
             std::to_string(bytes) + " outside of the block's " + std::to_string(shared.size()) + " bytes",
         lane);
  return &shared[address - sharedBase];
}

unsigned char *Machine::resolve(Warp &warp, Space space, std::uint64_t address, std::uint32_t bytes, bool write, int lane) {
  if (address % bytes != 0)
    fail("misaligned access of " + std::to_string(bytes) + " bytes at " + hex(address), lane);
  if (space == Space::generic || space == Space::global || space == Space::constant) {
    if (address >= sharedWindow && address < localWindow) {
      space = Space::shared;
      address -= sharedWindow;
    } else if (address >= localWindow && address < constantWindow) {
      space = Space::local;
      address -= localWindow;
    } else if (address >= constantWindow && address < constantWindow + constants.size()) {
      if (write || address + bytes > constantWindow + constants.size())
        fail("bad access to a constant of the module", lane);
      return &constants[address - constantWindow];
    } else {
      return global(address, bytes, write, lane);
    }
  }
  if (space == Space::shared) {
    if (address >> 32)
      fail("not a shared address: " + hex(address), lane);
    unsigned char *p = sharedAt(static_cast<std::uint32_t>(address), bytes, lane);
    if (write)
      noteStore(static_cast<std::uint32_t>(address), bytes, warp.number * 32 + lane);
    return p;
  }
  if (space == Space::local) {
    auto &memory = local.at(warp.number * 32 + lane);
    if (address + bytes > memory.size())
      fail("local address out of bounds", lane);
    return &memory[address];
  }
  if (address + bytes > params.size() || write)
    fail("bad access to parameters", lane);
  return &params[address];
}

void Machine::noteStore(std::uint32_t address, std::uint32_t bytes, int thread) {
  std::uint32_t from = address - sharedBase;
  for (std::uint32_t unit = from / 16; unit <= (from + bytes - 1) / 16; ++unit)
    if (readers[unit])
      fail("writes shared memory at " + std::to_string(from) + " that a wgmma in flight reads", thread % 32);
  for (std::uint32_t i = 0; i < bytes; ++i)
    unfenced[from + i] = static_cast<std::uint16_t>(thread + 1);
  auto &list = stores[thread];
  if (!list.empty() && list.back().second == from)
    list.back().second += bytes;
  else
    list.push_back({from, from + bytes});
}

void Machine::noteAsyncWrite(std::uint32_t address, std::uint32_t bytes) {
  std::uint32_t from = address - sharedBase;
  for (std::uint32_t unit = from / 16; unit <= (from + bytes - 1) / 16; ++unit)
    if (readers[unit])
      fail("a bulk copy writes shared memory at " + std::to_string(from) + " that a wgmma in flight reads");
  std::fill_n(unfenced.begin() + from, bytes, std::uint16_t(0));
}

void Machine::checkFenced(std::uint32_t address, std::uint32_t bytes, const char *reader) {
  for (std::uint32_t i = address - sharedBase; i < address - sharedBase + bytes; ++i)
    if (unfenced[i])
      fail(std::string(reader) + " reads shared memory at " + std::to_string(i) + " that thread " +
           std::to_string(unfenced[i] - 1) + " wrote without fence.proxy.async");
}

void Machine::memory(Warp &warp, const Instruction &in, std::uint32_t mask) {
  bool store = in.op == Op::st;
  const Operand &at = in.args[store ? 0 : 1][0];
  const std::vector<Operand> &values = in.args[store ? 1 : 0];
  std::uint32_t bytes = typeBytes(in.type), total = bytes * static_cast<std::uint32_t>(values.size());
  if (bytes == 16) // two registers would be needed; a b128 register has no user
    fail("b128 accesses are not supported");
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    unsigned char *p = resolve(warp, in.space, addressOf(warp, at, lane), total, store, lane);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (store) {
        std::uint64_t value = get(warp, values[i], lane);
        std::memcpy(p + i * bytes, &value, bytes);
      } else {
        std::uint64_t value = 0;
        std::memcpy(&value, p + i * bytes, bytes);
        if (isSigned(in.type) && bytes < 8)
          value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        set(warp, values[i], lane, value);
      }
    }
  }
}

void Machine::atomics(Warp &warp, const Instruction &in, std::uint32_t mask) {
  std::uint32_t bytes = typeBytes(in.type);
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    unsigned char *p = resolve(warp, in.space, addressOf(warp, in.args[1][0], lane), bytes, true, lane);
    std::uint64_t old = 0, value = get(warp, in.args[2][0], lane), result = 0;
    std::memcpy(&old, p, bytes);
    auto sign = [&](std::uint64_t x) {
      return bytes == 8 ? static_cast<std::int64_t>(x) : static_cast<std::int64_t>(static_cast<std::int32_t>(x));
    };
    if (in.mode == "add" && in.type == Type::f32)
      result = asBits(asFloat(old) + asFloat(value));
    else if (in.mode == "add")
      result = old + value;
    else if (in.mode == "exch")
      result = value;
    else if (in.mode == "cas")
      result = old == (bytes == 8 ? value : value & 0xffffffff) ? get(warp, in.args[3][0], lane) : old;
    else if (in.mode == "and")
      result = old & value;
    else if (in.mode == "or")
      result = old | value;
    else if (in.mode == "xor")
      result = old ^ value;
    else if (in.mode == "min" || in.mode == "max") {
      bool less = isSigned(in.type) ? sign(value) < sign(old)
                                    : (bytes == 8 ? value < old : std::uint32_t(value) < std::uint32_t(old));
      result = less == (in.mode == "min") ? value : old;
    } else if (in.mode == "inc")
      result = std::uint32_t(old) >= std::uint32_t(value) ? 0 : old + 1;
    else
      fail("unsupported atomic", lane);
    std::memcpy(p, &result, bytes);
    set(warp, in.args[0][0], lane, old);
  }
}

//===----------------------------------------------------------------------===//
// Warps and blocks together
//===----------------------------------------------------------------------===//

void Machine::barrier(Warp &warp, const Instruction &in) {
  int lane = __builtin_ctz(warp.alive);
  int id = static_cast<int>(get(warp, in.args[0][0], lane));
  if (id < 0 || id > 15)
    fail("barrier " + std::to_string(id) + " does not exist");
  Barrier &barrier = barriers[id];
  std::uint32_t count = in.args.size() > 1 ? static_cast<std::uint32_t>(get(warp, in.args[1][0], lane)) : 0;
  if (count % 32 != 0 || count > warps.size() * 32)
    fail("bad number of threads for a barrier: " + std::to_string(count));
  if (barrier.arrived == 0)
    barrier.expected = count;
  else if (barrier.expected != count)
    fail("warps give barrier " + std::to_string(id) + " different numbers of threads");
  barrier.arrived += 32;
  if (in.op == Op::barSync) {
    warp.waitingBarrier = id;
    barrier.waiting.push_back(warp.number);
  }
  settleBarriers();
}

void Machine::settleBarriers() {
  std::uint32_t alive = 0;
  for (const Warp &warp : warps)
    alive += warp.alive ? 32 : 0;
  for (auto &[id, barrier] : barriers)
    if (barrier.arrived > 0 && barrier.arrived >= (barrier.expected ? barrier.expected : alive)) {
      for (int number : barrier.waiting)
        warps[number].waitingBarrier = -1;
      barrier = Barrier();
    }
}

void Machine::collective(Warp &warp, const Instruction &in, std::uint32_t mask) {
  int first = __builtin_ctz(mask);
  auto members = static_cast<std::uint32_t>(get(warp, in.args.back()[0], first));
  if (in.op == Op::elect) {
    int leader = __builtin_ctz(members & warp.alive);
    for (int lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) {
        set(warp, in.args[0][0], lane, static_cast<std::uint64_t>(leader));
        if (in.args[0].size() > 1)
          set(warp, in.args[0][1], lane, lane == leader);
      }
    return;
  }
  if (in.op == Op::shfl) {
    Lanes scratch, values = get(warp, in.args[1][0], scratch);
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      if (!(members >> lane & 1))
        fail("a shuffle's mask does not name the lane itself", lane);
      int b = static_cast<int>(get(warp, in.args[2][0], lane) & 31), c = static_cast<int>(get(warp, in.args[3][0], lane));
      int segment = c >> 8 & 31, clamp = c & 31, max = (lane & segment) | (clamp & ~segment), min = lane & segment, from;
      bool valid;
      if (in.mode == "up") {
        from = lane - b;
        valid = from >= max;
      } else if (in.mode == "down") {
        from = lane + b;
        valid = from <= max;
      } else if (in.mode == "bfly") {
        from = lane ^ b;
        valid = from <= max;
      } else {
        from = min | (b & ~segment);
        valid = from <= max;
      }
      if (!valid)
        from = lane;
      else if (!(mask >> from & 1))
        fail("a shuffle reads from lane " + std::to_string(from) + ", which takes no part", lane);
      set(warp, in.args[0][0], lane, values[from]);
      if (in.args[0].size() > 1)
        set(warp, in.args[0][1], lane, valid);
    }
    return;
  }
  std::uint64_t result = 0;
  if (in.op == Op::vote) {
    std::uint32_t ballot = 0;
    for (int lane = 0; lane < 32; ++lane)
      if ((mask & members) >> lane & 1)
        ballot |= static_cast<std::uint32_t>(get(warp, in.args[1][0], lane) & 1) << lane;
    result = in.mode == "ballot" ? ballot
             : in.mode == "any"  ? ballot != 0
             : in.mode == "all"  ? ballot == (mask & members)
                                 : ballot == 0 || ballot == (mask & members);
  } else {
    bool firstValue = true;
    for (int lane = 0; lane < 32; ++lane) {
      if (!((mask & members) >> lane & 1))
        continue;
      std::uint64_t x = get(warp, in.args[1][0], lane) & 0xffffffff;
      auto sx = static_cast<std::int32_t>(x), sr = static_cast<std::int32_t>(result);
      bool isSignedType = in.type == Type::s32;
      if (firstValue)
        result = x;
      else if (in.mode == "add")
        result = (result + x) & 0xffffffff;
      else if (in.mode == "min")
        result = isSignedType ? static_cast<std::uint32_t>(std::min(sx, sr)) : std::min(x, result);
      else if (in.mode == "max")
        result = isSignedType ? static_cast<std::uint32_t>(std::max(sx, sr)) : std::max(x, result);
      else if (in.mode == "and")
        result &= x;
      else if (in.mode == "or")
        result |= x;
      else
        result ^= x;
      firstValue = false;
    }
  }
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1)
      set(warp, in.args[0][0], lane, result);
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

Mbarrier &Machine::barAt(std::uint32_t address, int lane) {
  auto found = mbarriers.find(address);
  if (found == mbarriers.end())
    fail("no mbarrier at shared address " + std::to_string(static_cast<std::int64_t>(address) - sharedBase), lane);
  return found->second;
}

void Machine::settle(Mbarrier &bar) {
  if (bar.pending == 0 && bar.bytes == 0) {
    ++bar.phase;
    bar.pending = bar.count;
    wakeAll();
  }
}

void Machine::completeBytes(std::uint32_t address, std::int64_t bytes) {
  Mbarrier &bar = barAt(address, -1);
  bar.bytes -= bytes;
  if (bar.pending == 0 && bar.bytes < 0)
    fail("more bytes arrive at an mbarrier than it expects");
  settle(bar);
}

void Machine::mbarrier(Warp &warp, const Instruction &in, std::uint32_t mask) {
  std::uint32_t failed = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    bool hasResult = in.op == Op::mbarArrive || in.op == Op::mbarWait;
    const Operand &at = in.args[hasResult][0];
    std::uint32_t address = sharedAddress(warp, at, lane);
    sharedAt(address, 8, lane);
    auto argument = [&](std::size_t i) { return static_cast<std::uint32_t>(get(warp, in.args[i][0], lane)); };
    if (in.op == Op::mbarInit) {
      mbarriers[address] = {argument(1), argument(1), 0, 0};
      continue;
    }
    Mbarrier &bar = barAt(address, lane);
    switch (in.op) {
    case Op::mbarInval:
      mbarriers.erase(address);
      break;
    case Op::mbarArrive: {
      std::uint32_t count = 1;
      if (in.expectTx)
        bar.bytes += argument(2);
      else if (in.args.size() > 2)
        count = argument(2);
      if (bar.pending < count)
        fail("more arrivals at an mbarrier than it counts", lane);
      bar.pending -= count;
      settle(bar);
      break;
    }
    case Op::mbarExpect:
      bar.bytes += argument(1);
      break;
    case Op::mbarComplete:
      completeBytes(address, argument(1));
      break;
    default: {
      bool done = (bar.phase & 1) != (argument(2) & 1);
      set(warp, in.args[0][0], lane, done);
      failed |= done ? 0u : 1u << lane;
    }
    }
  }
  if (in.op != Op::mbarWait)
    return;
  warp.deferred = (warp.deferred & ~mask) | failed;
  if (failed && !(warp.alive & ~warp.deferred))
    warp.stalled = true;
}
