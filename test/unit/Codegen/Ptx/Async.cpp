//===- Async.cpp - copies that run beside the threads, and mbarriers ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Block.h"

#include <algorithm>

namespace k3::test::ptx {

namespace {

//===----------------------------------------------------------------------===//
// cp.async: 4 to 16 bytes per thread
//===----------------------------------------------------------------------===//

void copyBytes(Warp &w, unsigned lane, std::uint64_t to, std::uint64_t from, std::uint64_t size, std::uint64_t source) {
  w.checkWaited(lane);
  Block &block = *w.block;
  if ((to | from) % size != 0)
    fail("misaligned asynchronous copy of " + std::to_string(size) + " bytes");
  // From now on until its thread waits for it, the place belongs to the copy.
  Access copy{Access::copy, copyActor, ++block.asyncClock, 0};
  std::uint64_t offset = sharedOffset(to);
  block.sharedBytesAt(offset, size, true, w.now(lane), w.clocks);
  block.stampWrite(offset, size, copy);
  const std::uint8_t *memory = source > 0 ? block.global(w, from, source, {}) : nullptr;
  auto finish = [&block, offset, memory, size, source] {
    std::uint8_t *target = block.shared.data() + offset;
    std::memset(target, 0, size);
    if (source > 0)
      std::memcpy(target, memory, source);
  };
  auto hand = [&w, &block, lane, offset, size] { // over to the thread
    block.stampWrite(offset, size, w.now(lane));
    block.noteStore(offset, size, w.thread(lane));
  };
  if (block.lateCopies) {
    w.copies[lane].open.push_back([finish, hand] {
      finish();
      hand();
    });
  } else {
    finish();
    w.copies[lane].open.push_back(hand);
  }
}

void decodeThreadCopy(Instruction &in) {
  if (in.has("commit_group")) {
    in.execute = [](Warp &w, std::uint32_t mask) { forLanes(mask, [&](unsigned l) { w.copies[l].commit(); }); };
    return;
  }
  if (in.has("wait_group") || in.has("wait_all")) {
    bool all = in.has("wait_all");
    Bits keep = all ? 0 : in.operands.at(0).value;
    in.execute = [keep, all](Warp &w, std::uint32_t mask) {
      forLanes(mask, [&](unsigned l) {
        if (all)
          w.copies[l].commit();
        w.copies[l].wait(keep);
      });
    };
    return;
  }
  if (in.has("mbarrier")) { // the thread arrives when its copies so far are done
    bool noinc = in.has("noinc");
    in.execute = [where = in.operands.at(0), noinc](Warp &w, std::uint32_t mask) {
      forLanes(mask, [&](unsigned l) {
        w.copies[l].commit();
        w.copies[l].wait(0);
        MBarrier &barrier = w.block->mbarrier(w.address(where, l));
        w.release(barrier.arriving);
        if (noinc)
          --barrier.pending;
        w.block->settle(barrier);
      });
    };
    return;
  }
  if (in.operands.size() < 3)
    fail("too few operands");
  in.execute = [ops = in.operands](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      Bits size = w.read(ops[2], l) & 0xFFFFFFFF;
      copyBytes(w, l, w.address(ops[0], l), w.address(ops[1], l), size, ops.size() > 3 ? w.read(ops[3], l) & 0xFFFFFFFF : size);
    });
  };
}

//===----------------------------------------------------------------------===//
// Bulk copies
//===----------------------------------------------------------------------===//

/// An operation of the async proxy: what it knows, and who it is.
struct Flight {
  Clocks known;
  Access who;
  explicit Flight(Warp &w) : known(w.clocks), who{Access::copy, copyActor, ++w.block->asyncClock, 0} {}
  /// Its end is seen by those who wait for the barrier.
  void complete(Block &block, std::uint64_t barrierAddress, std::uint64_t bytes) const {
    MBarrier &barrier = block.mbarrier(barrierAddress);
    Clocks end = known;
    end.at[copyActor] = std::max(end.at[copyActor], who.clock);
    barrier.arriving.join(end);
    barrier.bytes -= static_cast<std::int64_t>(bytes);
    block.settle(barrier);
  }
};

PtxTensorMap readTensorMap(Warp &w, std::uint64_t address) {
  auto begin = reinterpret_cast<std::uint64_t>(w.block->grid.parameters.data());
  if (address < begin || address + sizeof(PtxTensorMap) > begin + w.block->grid.parameters.size())
    fail("a tensor map must be a parameter");
  PtxTensorMap map;
  std::memcpy(&map, reinterpret_cast<const void *>(address), sizeof map);
  if (map.magic != PtxTensorMap::mark)
    fail("this parameter is not a tensor map");
  return map;
}

std::array<std::int64_t, 5> readCoordinates(Warp &w, unsigned lane, const Operand &operand, const PtxTensorMap &map) {
  if (operand.parts.size() != map.rank)
    fail("expected " + std::to_string(map.rank) + " coordinates");
  std::array<std::int64_t, 5> at{};
  for (std::size_t i = 0; i < operand.parts.size(); ++i)
    at[i] = static_cast<std::int32_t>(w.read(operand.parts[i], lane));
  return at;
}

/// Calls f(shared offset, global address or 0 outside of the tensor) for every element of a box.
template <class F>
void forBox(const PtxTensorMap &map, const std::array<std::int64_t, 5> &at, std::uint64_t shared, F f) {
  std::uint64_t rows = 1, rowBytes = std::uint64_t(map.box[0]) * map.elementBytes;
  for (std::uint32_t d = 1; d < map.rank; ++d)
    rows *= map.box[d];
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t rest = row;
    bool inside = true;
    auto global = reinterpret_cast<std::uint64_t>(map.address);
    for (std::uint32_t d = 1; d < map.rank; ++d) {
      std::int64_t position = at[d] + static_cast<std::int64_t>(rest % map.box[d]);
      rest /= map.box[d];
      inside &= position >= 0 && position < static_cast<std::int64_t>(map.sizes[d]);
      global += static_cast<std::uint64_t>(position) * map.strides[d - 1];
    }
    for (std::uint32_t i = 0; i < map.box[0]; ++i) {
      std::int64_t position = at[0] + static_cast<std::int64_t>(i);
      bool here = inside && position >= 0 && position < static_cast<std::int64_t>(map.sizes[0]);
      std::uint64_t offset = shared + row * rowBytes + std::uint64_t(i) * map.elementBytes;
      offset ^= offset >> 3 & (map.swizzleBytes == 128 ? 0x70 : map.swizzleBytes == 64 ? 0x30 : map.swizzleBytes == 32 ? 0x10 : 0);
      f(offset, here ? global + static_cast<std::uint64_t>(position) * map.elementBytes : 0);
    }
  }
}

/// [shared], [map, {coordinates}], [mbarrier]
void loadBox(Warp &w, unsigned lane, const std::vector<Operand> &ops) {
  w.checkWaited(lane);
  Block &block = *w.block;
  PtxTensorMap map = readTensorMap(w, w.address(ops[1], lane));
  auto at = readCoordinates(w, lane, ops[1], map);
  std::uint64_t to = sharedOffset(w.address(ops[0], lane)), barrier = w.address(ops[2], lane);
  if (to % 128 != 0)
    fail("a box must start at a multiple of 128 bytes");
  Flight flight(w);
  MemoryUse read;
  read.bulk = true;
  forBox(map, at, to, [&](std::uint64_t offset, std::uint64_t global) {
    block.asyncShared(offset, map.elementBytes, true, flight.who, flight.known);
    if (global)
      block.global(w, global, map.elementBytes, read);
  });
  block.inFlight.push_back([&block, map, at, to, barrier, flight] {
    std::uint64_t total = 0;
    forBox(map, at, to, [&](std::uint64_t offset, std::uint64_t global) {
      std::memset(block.shared.data() + offset, 0, map.elementBytes);
      if (global)
        std::memcpy(block.shared.data() + offset, reinterpret_cast<const void *>(global), map.elementBytes);
      total += map.elementBytes;
    });
    flight.complete(block, barrier, total);
  });
}

/// Reads of shared memory end when the thread waits for them.
void storeLater(Warp &w, unsigned lane, std::function<void(const Access &, const Clocks &)> operation) {
  Clocks known = w.clocks;
  ++w.block->grid.events;
  if (!w.block->lateCopies)
    operation(w.now(lane), known);
  w.bulkStores[lane].open.push_back([&w, lane, known, operation] {
    if (w.block->lateCopies)
      operation(w.now(lane), known);
  });
}

/// [map, {coordinates}], [shared]
void storeBox(Warp &w, unsigned lane, const std::vector<Operand> &ops, bool adds) {
  w.checkWaited(lane);
  Block &block = *w.block;
  PtxTensorMap map = readTensorMap(w, w.address(ops[0], lane));
  auto at = readCoordinates(w, lane, ops[0], map);
  std::uint64_t from = sharedOffset(w.address(ops[1], lane));
  if (from % 128 != 0)
    fail("a box must start at a multiple of 128 bytes");
  MemoryUse write;
  write.writes = write.bulk = true;
  write.atomic = adds;
  storeLater(w, lane, [&w, &block, map, at, from, adds, write](const Access &who, const Clocks &known) {
    forBox(map, at, from, [&](std::uint64_t offset, std::uint64_t global) {
      std::uint8_t *source = block.asyncShared(offset, map.elementBytes, false, who, known);
      if (!global)
        return;
      std::uint8_t *memory = block.global(w, global, map.elementBytes, write);
      if (adds) {
        float sum, part;
        std::memcpy(&sum, memory, 4);
        std::memcpy(&part, source, 4);
        sum += part;
        std::memcpy(memory, &sum, 4);
      } else {
        std::memcpy(memory, source, map.elementBytes);
      }
    });
  });
}

void checkBulk(std::uint64_t shared, std::uint64_t global, std::uint64_t bytes) {
  if ((shared | global | bytes) % 16 != 0)
    fail("bulk copies need addresses and sizes that are multiples of 16");
}

/// [shared], [global], bytes, [mbarrier]
void loadRun(Warp &w, unsigned lane, const std::vector<Operand> &ops) {
  w.checkWaited(lane);
  Block &block = *w.block;
  std::uint64_t to = sharedOffset(w.address(ops[0], lane)), from = w.address(ops[1], lane),
                bytes = w.read(ops[2], lane) & 0xFFFFFFFF, barrier = w.address(ops[3], lane);
  checkBulk(to, from, bytes);
  Flight flight(w);
  block.asyncShared(to, bytes, true, flight.who, flight.known);
  MemoryUse read;
  read.bulk = true;
  const std::uint8_t *memory = block.global(w, from, bytes, read);
  block.inFlight.push_back([&block, to, memory, bytes, barrier, flight] {
    std::memcpy(block.shared.data() + to, memory, bytes);
    flight.complete(block, barrier, bytes);
  });
}

/// [global], [shared], bytes
void storeRun(Warp &w, unsigned lane, const std::vector<Operand> &ops) {
  w.checkWaited(lane);
  Block &block = *w.block;
  std::uint64_t to = w.address(ops[0], lane), from = sharedOffset(w.address(ops[1], lane)),
                bytes = w.read(ops[2], lane) & 0xFFFFFFFF;
  checkBulk(from, to, bytes);
  MemoryUse write;
  write.writes = write.bulk = true;
  storeLater(w, lane, [&w, &block, to, from, bytes, write](const Access &who, const Clocks &known) {
    std::memcpy(block.global(w, to, bytes, write), block.asyncShared(from, bytes, false, who, known), bytes);
  });
}

void decodeBulkCopy(Instruction &in) {
  if (in.has("commit_group")) {
    in.execute = [](Warp &w, std::uint32_t mask) { forLanes(mask, [&](unsigned l) { w.bulkStores[l].commit(); }); };
    return;
  }
  if (in.has("wait_group")) {
    in.execute = [keep = in.operands.at(0).value](Warp &w, std::uint32_t mask) {
      forLanes(mask, [&](unsigned l) { w.bulkStores[l].wait(keep); });
    };
    return;
  }
  if (in.has("prefetch")) {
    in.execute = [](Warp &, std::uint32_t) {};
    return;
  }
  // The destination's space is named first.
  auto to = std::find_if(in.words.begin(), in.words.end(),
                         [](const std::string &part) { return part.compare(0, 6, "shared") == 0 || part == "global"; });
  bool toShared = to != in.words.end() && *to != "global", tensor = in.has("tensor"), reduces = in.words[1] == "reduce";
  if (reduces && (toShared || !tensor || !in.has("add")))
    fail("unknown reduction");
  if (in.has("im2col") || in.has("multicast::cluster"))
    fail("unknown kind of copy");
  std::size_t count = tensor ? (toShared ? 3 : 2) : (toShared ? 4 : 3);
  if (in.operands.size() < count)
    fail("too few operands");
  in.execute = [ops = in.operands, toShared, tensor, reduces](Warp &w, std::uint32_t mask) {
    forLanes(mask, [&](unsigned l) {
      if (tensor)
        toShared ? loadBox(w, l, ops) : storeBox(w, l, ops, reduces);
      else
        toShared ? loadRun(w, l, ops) : storeRun(w, l, ops);
    });
  };
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

void decodeMBarrier(Instruction &in) {
  const std::string &what = in.words.at(1);
  const std::vector<Operand> ops = in.operands;
  auto forEach = [&](std::function<void(Warp &, unsigned)> f) {
    in.execute = [f](Warp &w, std::uint32_t mask) { forLanes(mask, [&](unsigned l) { f(w, l); }); };
  };
  if (what == "init")
    return forEach([ops](Warp &w, unsigned l) {
      std::uint64_t offset = sharedOffset(w.address(ops[0], l));
      if (offset % 8 != 0 || offset + 8 > w.block->shared.size())
        fail("no place for an mbarrier at " + std::to_string(offset));
      MBarrier barrier;
      barrier.expected = static_cast<std::uint32_t>(w.read(ops[1], l));
      barrier.pending = barrier.expected;
      w.block->mbarriers[offset] = barrier;
    });
  if (what == "inval")
    return forEach([ops](Warp &w, unsigned l) { w.block->mbarriers.erase(sharedOffset(w.address(ops[0], l))); });
  if (what == "expect_tx")
    return forEach([ops](Warp &w, unsigned l) {
      w.block->mbarrier(w.address(ops[0], l)).bytes += static_cast<std::int64_t>(w.read(ops[1], l) & 0xFFFFFFFF);
    });
  if (what == "arrive") {
    bool expects = in.has("expect_tx");
    // A token, or `_`, may come before the address.
    std::size_t first = !ops.empty() && ops[0].kind == Operand::Address ? 0 : 1;
    if (ops.size() <= first)
      fail("too few operands");
    return forEach([ops, expects, first](Warp &w, unsigned l) {
      MBarrier &barrier = w.block->mbarrier(w.address(ops[first], l));
      if (first)
        w.write(ops[0], l, barrier.phase);
      Bits count = 1;
      if (ops.size() > first + 1) {
        Bits value = w.read(ops[first + 1], l) & 0xFFFFFFFF;
        if (expects)
          barrier.bytes += static_cast<std::int64_t>(value);
        else
          count = value;
      }
      barrier.pending -= static_cast<std::int64_t>(count);
      w.release(barrier.arriving);
      w.block->settle(barrier);
    });
  }
  if (what != "try_wait" && what != "test_wait")
    fail("unknown instruction");
  bool parity = in.has("parity"), blocks = what == "try_wait";
  in.execute = [ops, parity, blocks](Warp &w, std::uint32_t mask) {
    bool all = true;
    forLanes(mask, [&](unsigned l) {
      MBarrier &barrier = w.block->mbarrier(w.address(ops[1], l));
      Bits value = w.read(ops[2], l);
      bool done = parity ? (barrier.phase & 1) != (value & 1) : barrier.phase != value;
      all &= done;
      w.write(ops[0], l, done);
      if (done)
        w.acquire(barrier.done);
    });
    w.stalled = blocks && !all;
  };
}

} // namespace

void decodeAsync(Instruction &in) {
  const std::string &name = in.words[0];
  if (name == "mbarrier")
    return decodeMBarrier(in);
  if (name == "fence" || name == "membar") {
    bool proxy = in.has("proxy"), ofDevice = !proxy && (in.has("gpu") || in.has("gl") || in.has("sys"));
    if (proxy && in.words.at(2).compare(0, 5, "async") != 0)
      fail("unknown proxy");
    if (ofDevice && (in.has("acquire") || in.has("release")))
      fail("unknown fence");
    in.execute = [proxy, ofDevice](Warp &w, std::uint32_t mask) {
      if (proxy)
        forLanes(mask, [&](unsigned l) { w.block->fenceProxy(w.thread(l)); });
      else if (ofDevice && w.block->grid.order)
        w.block->grid.order->fence(w);
    };
    return;
  }
  if (in.has("bulk"))
    return decodeBulkCopy(in);
  decodeThreadCopy(in);
}

} // namespace k3::test::ptx
