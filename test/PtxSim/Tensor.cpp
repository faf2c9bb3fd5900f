//===- Tensor.cpp - matrix instructions and asynchronous copies -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/PtxSim/Machine.h"

#include <algorithm>
#include <cstring>

using namespace k3::ptxsim;

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

static float half(Type type, std::uint64_t bits, int which) {
  auto value = static_cast<std::uint16_t>(bits >> 16 * which);
  return type == Type::bf16 ? bf16ToFloat(value) : f16ToFloat(value);
}

void Machine::mma(Warp &warp, const Instruction &in) {
  const auto &d = in.args[0], &a = in.args[1], &b = in.args[2], &c = in.args[3];
  bool tf32 = in.a == Type::tf32;
  if (in.type != Type::f32 || (in.a != Type::bf16 && in.a != Type::f16 && !tf32))
    fail("unsupported types of mma");
  if (static_cast<int>(a.size()) != in.k / (tf32 ? 2 : 4) || static_cast<int>(b.size()) != in.k / (tf32 ? 4 : 8) || c.size() != 4)
    fail("bad operands of mma");
  float A[16][16], B[16][8];
  double C[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    int g = lane / 4, t = lane % 4;
    for (std::size_t i = 0; i < a.size(); ++i) {
      std::uint64_t bits = get(warp, a[i], lane);
      int row = g + 8 * static_cast<int>(i & 1), step = static_cast<int>(i >> 1);
      if (tf32)
        A[row][t + 4 * step] = asFloat(bits & ~0x1fffull);
      else
        for (int e = 0; e < 2; ++e)
          A[row][2 * t + e + 8 * step] = half(in.a, bits, e);
    }
    for (std::size_t i = 0; i < b.size(); ++i) {
      std::uint64_t bits = get(warp, b[i], lane);
      int step = static_cast<int>(i);
      if (tf32)
        B[t + 4 * step][g] = asFloat(bits & ~0x1fffull);
      else
        for (int e = 0; e < 2; ++e)
          B[2 * t + e + 8 * step][g] = half(in.a, bits, e);
    }
    for (int i = 0; i < 4; ++i)
      C[g + 8 * (i >> 1)][2 * t + (i & 1)] = asFloat(get(warp, c[i], lane));
  }
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n)
      for (int k = 0; k < in.k; ++k)
        C[m][n] += static_cast<double>(A[m][k]) * B[k][n];
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      set(warp, d[i], lane, asBits(static_cast<float>(C[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + (i & 1)])));
}

void Machine::matrixAccess(Warp &warp, const Instruction &in) {
  if (in.op == Op::movmatrix) {
    std::uint16_t matrix[8][8];
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 2; ++e)
        matrix[lane / 4][2 * (lane % 4) + e] = static_cast<std::uint16_t>(get(warp, in.args[1][0], lane) >> 16 * e);
    for (int lane = 0; lane < 32; ++lane)
      set(warp, in.args[0][0], lane,
          matrix[2 * (lane % 4)][lane / 4] | std::uint64_t(matrix[2 * (lane % 4) + 1][lane / 4]) << 16);
    return;
  }
  bool store = in.op == Op::stmatrix;
  const std::vector<Operand> &regs = in.args[store ? 1 : 0];
  const Operand &at = in.args[store ? 0 : 1][0];
  if (static_cast<int>(regs.size()) != in.n)
    fail("number of registers and of matrices differ");
  for (int i = 0; i < in.n; ++i) {
    std::uint16_t matrix[8][8];
    if (store)
      for (int lane = 0; lane < 32; ++lane)
        for (int e = 0; e < 2; ++e) {
          int row = lane / 4, column = 2 * (lane % 4) + e;
          (in.trans ? matrix[column][row] : matrix[row][column]) = static_cast<std::uint16_t>(get(warp, regs[i], lane) >> 16 * e);
        }
    for (int row = 0; row < 8; ++row) {
      int lane = 8 * i + row;
      unsigned char *p = resolve(warp, Space::shared, sharedAddress(warp, at, lane), 16, store, lane);
      if (store)
        std::memcpy(p, matrix[row], 16);
      else
        std::memcpy(matrix[row], p, 16);
    }
    if (!store)
      for (int lane = 0; lane < 32; ++lane) {
        std::uint64_t value = 0;
        for (int e = 0; e < 2; ++e) {
          int row = lane / 4, column = 2 * (lane % 4) + e;
          value |= std::uint64_t(in.trans ? matrix[column][row] : matrix[row][column]) << 16 * e;
        }
        set(warp, regs[i], lane, value);
      }
  }
}

//===----------------------------------------------------------------------===//
// wgmma
//===----------------------------------------------------------------------===//

namespace {
/// A matrix of bf16 in shared memory as a wgmma descriptor gives it; "row" is the m or n index.
struct Descriptor {
  std::uint32_t start, leading, stride, swizzle;
  explicit Descriptor(std::uint64_t bits)
      : start(static_cast<std::uint32_t>(bits & 0x3fff) << 4), leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4) {
    constexpr std::uint32_t widths[] = {0, 128, 64, 32};
    swizzle = widths[bits >> 62];
  }
  std::uint32_t address(std::uint32_t row, std::uint32_t k, bool transposed) const {
    if (transposed) {
      std::uint32_t width = swizzle / 2;
      return start + row / width * leading + k / 8 * stride + k % 8 * swizzle + row % width * 2;
    }
    if (swizzle == 0)
      return start + row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2;
    return start + row / 8 * stride + row % 8 * swizzle + k * 2;
  }
};
} // namespace

/// Address bits 4.. are xored with bits 7..; the pattern is tied to the address, not to the tile.
static std::uint32_t applySwizzle(std::uint32_t address, std::uint32_t swizzle) {
  std::uint32_t mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
  return address ^ ((address >> 7 & mask) << 4);
}

float Machine::element(std::uint32_t address, std::uint32_t swizzle, std::vector<std::uint32_t> *units) {
  address = applySwizzle(address, swizzle);
  std::uint16_t bits;
  std::memcpy(&bits, sharedAt(address, 2, -1), 2);
  std::uint32_t unit = (address - sharedBase) / 16;
  if (units->empty() || units->back() != unit)
    units->push_back(unit);
  return bf16ToFloat(bits);
}

void Machine::wgmma(Warp &warp, const Instruction &in) {
  const auto &d = in.args[0];
  int first = __builtin_ctz(warp.alive), n = in.n;
  if (static_cast<int>(d.size()) != n / 2)
    fail("bad number of accumulators");
  bool fromRegisters = in.args[1].size() == 4;
  float A[16][16];
  std::vector<float> B(16 * static_cast<std::size_t>(n));
  std::vector<std::uint32_t> units;
  auto immediate = [&](std::size_t i) { return static_cast<std::int64_t>(get(warp, in.args[i][0], first)); };
  bool transA = !fromRegisters && immediate(6), transB = immediate(fromRegisters ? 6 : 7) != 0;
  auto uniform = [&](const Operand &operand) {
    std::uint64_t value = get(warp, operand, first);
    for (int lane = 0; lane < 32; ++lane)
      if (get(warp, operand, lane) != value)
        fail("a wgmma descriptor differs between lanes", lane);
    return Descriptor(value);
  };
  if (fromRegisters) {
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        std::uint64_t bits = get(warp, in.args[1][i], lane);
        for (int e = 0; e < 2; ++e)
          A[lane / 4 + 8 * (i & 1)][2 * (lane % 4) + e + 8 * (i >> 1)] = bf16ToFloat(static_cast<std::uint16_t>(bits >> 16 * e));
      }
  } else {
    Descriptor a = uniform(in.args[1][0]);
    for (std::uint32_t row = 0; row < 16; ++row)
      for (std::uint32_t k = 0; k < 16; ++k)
        A[row][k] = element(a.address(16 * (warp.number % 4) + row, k, transA), a.swizzle, &units);
  }
  Descriptor b = uniform(in.args[2][0]);
  if (transB && b.swizzle == 0)
    fail("a transposed operand without swizzle is not supported");
  for (std::uint32_t column = 0; column < static_cast<std::uint32_t>(n); ++column)
    for (std::uint32_t k = 0; k < 16; ++k)
      B[k * n + column] = element(b.address(column, k, transB), b.swizzle, &units);
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  for (std::uint32_t unit : units) {
    checkFenced(sharedBase + unit * 16, 16, "wgmma");
    ++readers[unit];
    warp.reads.push_back({warp.group, unit});
  }
  bool accumulate = immediate(3) & 1;
  float signA = immediate(4) < 0 ? -1.0f : 1.0f, signB = immediate(5) < 0 ? -1.0f : 1.0f;
  std::vector<double> sums(16 * static_cast<std::size_t>(n), 0.0);
  for (int lane = 0; lane < 32 && accumulate; ++lane)
    for (int i = 0; i < n / 2; ++i)
      sums[(lane / 4 + 8 * (i >> 1 & 1)) * n + 8 * (i >> 2) + 2 * (lane % 4) + (i & 1)] = asFloat(get(warp, d[i], lane));
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k) {
      double a = signA * signB * A[m][k];
      const float *row = &B[static_cast<std::size_t>(k) * n];
      double *to = &sums[static_cast<std::size_t>(m) * n];
      for (int j = 0; j < n; ++j)
        to[j] += a * row[j];
    }
  for (int i = 0; i < n / 2; ++i) {
    for (int lane = 0; lane < 32; ++lane)
      set(warp, d[i], lane,
          asBits(static_cast<float>(sums[(lane / 4 + 8 * (i >> 1 & 1)) * n + 8 * (i >> 2) + 2 * (lane % 4) + (i & 1)])));
    if (d[i].reg >= 0) {
      if (!warp.pending[d[i].reg])
        warp.pendingRegisters.push_back(d[i].reg);
      warp.pending[d[i].reg] = warp.group;
    }
  }
}

/// The last group of wgmmas that is complete after `wait`.
std::uint32_t Machine::lastGroup(const Warp &warp, const Instruction &wait) {
  auto inFlight = static_cast<std::uint32_t>(wait.args[0][0].imm);
  return warp.group - 1 > inFlight ? warp.group - 1 - inFlight : 0;
}

/// A wgmma is one operation of four warps: it is not complete before all of them have issued it, and once one of them has
/// seen it complete, it has read its operands for all.
bool Machine::isWgmmaIssued(const Warp &warp, const Instruction &wait) const {
  for (int other = warp.number & ~3; other < (warp.number | 3) + 1; ++other)
    if (warps.at(other).group <= lastGroup(warp, wait))
      return false;
  return true;
}

void Machine::wgmmaWait(Warp &warp, std::uint32_t lastGroup) {
  auto done = [&](int reg) {
    if (warp.pending[reg] > lastGroup)
      return false;
    warp.pending[reg] = 0;
    return true;
  };
  auto &regs = warp.pendingRegisters;
  regs.erase(std::remove_if(regs.begin(), regs.end(), done), regs.end());
  auto read = [&](const std::pair<std::uint32_t, std::uint32_t> &entry) {
    if (entry.first > lastGroup)
      return false;
    --readers[entry.second];
    return true;
  };
  for (int other = warp.number & ~3; other < (warp.number | 3) + 1; ++other) {
    auto &reads = warps[other].reads;
    reads.erase(std::remove_if(reads.begin(), reads.end(), read), reads.end());
  }
}

/// Accumulators in flight may be accumulated on, and copied by moves that ptxas coalesces; anything else is an error.
void Machine::checkPending(Warp &warp, const Instruction &in) {
  if (in.op == Op::wgmma || in.op == Op::wgmmaWait || in.op == Op::wgmmaCommit || in.op == Op::wgmmaFence)
    return;
  bool isMove = in.op == Op::mov && in.args[0].size() == 1 && in.args[1].size() == 1;
  for (const auto &arg : in.args)
    for (const Operand &operand : arg) {
      if (operand.reg < 0 || !warp.pending[operand.reg])
        continue;
      if (!isMove)
        fail("touches an accumulator of a wgmma that nobody waited for");
      const Operand &to = in.args[0][0];
      if (&operand == &to) {
        warp.pending[to.reg] = 0;
        auto &regs = warp.pendingRegisters;
        regs.erase(std::find(regs.begin(), regs.end(), to.reg));
      }
    }
  if (isMove && in.args[1][0].reg >= 0 && warp.pending[in.args[1][0].reg]) {
    warp.pending[in.args[0][0].reg] = warp.pending[in.args[1][0].reg];
    warp.pendingRegisters.push_back(in.args[0][0].reg);
  }
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void Machine::performAsync(std::size_t index) {
  Async async = std::move(asyncs[index]);
  asyncs.erase(asyncs.begin() + static_cast<std::ptrdiff_t>(index));
  // An arrival follows all copies issued before it by the same warp.
  if (async.kind == Async::Kind::arrive)
    for (std::size_t i = 0; i < index && i < asyncs.size();) {
      if (asyncs[i].warp == async.warp && asyncs[i].kind == Async::Kind::copy) {
        performAsync(i);
        --index;
      } else {
        ++i;
      }
    }
  async.perform();
}

void Machine::flush(const std::function<bool(const Async &)> &which) {
  for (std::size_t i = 0; i < asyncs.size();)
    if (which(asyncs[i]))
      performAsync(i);
    else
      ++i;
}

void Machine::copies(Warp &warp, const Instruction &in, std::uint32_t mask) {
  int number = warp.number, first = __builtin_ctz(mask);
  switch (in.op) {
  case Op::cpAsync: {
    struct Line {
      std::uint32_t to;
      const unsigned char *from;
      std::uint32_t bytes;
      int lane;
    };
    std::vector<Line> lines;
    auto size = static_cast<std::uint32_t>(get(warp, in.args[2][0], first));
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      std::uint32_t to = sharedAddress(warp, in.args[0][0], lane);
      std::uint64_t from = addressOf(warp, in.args[1][0], lane);
      auto bytes = in.args.size() > 3 ? static_cast<std::uint32_t>(get(warp, in.args[3][0], lane)) : size;
      if (to % size || from % size)
        fail("misaligned cp.async", lane);
      sharedAt(to, size, lane);
      lines.push_back({to, bytes ? global(from, bytes, false, lane) : nullptr, bytes, lane});
    }
    asyncs.push_back({Async::Kind::copy, number, -1, warp.copyGroup, [=] {
                        for (const Line &line : lines) {
                          noteStore(line.to, size, number * 32 + line.lane);
                          unsigned char *p = sharedAt(line.to, size, line.lane);
                          std::memset(p, 0, size);
                          if (line.bytes)
                            std::memcpy(p, line.from, line.bytes);
                        }
                      }});
    return;
  }
  case Op::cpAsyncCommit:
    ++warp.copyGroup;
    return;
  case Op::cpAsyncWait: {
    int last = in.sat ? warp.copyGroup : warp.copyGroup - 1 - static_cast<int>(get(warp, in.args[0][0], first));
    flush([&](const Async &async) { return async.warp == number && async.kind == Async::Kind::copy && async.group <= last; });
    return;
  }
  case Op::cpAsyncArrive:
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      std::uint32_t address = sharedAddress(warp, in.args[0][0], lane);
      barAt(address, lane);
      if (!in.noinc)
        ++barAt(address, lane).pending;
      asyncs.push_back({Async::Kind::arrive, number, lane, 0, [=] {
                          Mbarrier &bar = barAt(address, lane);
                          if (bar.pending == 0)
                            fail("more arrivals at an mbarrier than it counts", lane);
                          --bar.pending;
                          settle(bar);
                        }});
    }
    return;
  case Op::bulkCommit:
    for (int lane = 0; lane < 32; ++lane)
      warp.bulkGroup[lane] += mask >> lane & 1;
    return;
  case Op::bulkWait:
    flush([&](const Async &async) {
      return async.warp == number && async.kind == Async::Kind::store && (mask >> async.lane & 1) &&
             async.group < warp.bulkGroup[async.lane] - static_cast<int>(in.args[0][0].imm);
    });
    return;
  default:
    for (int lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1)
        tensorCopy(warp, in, lane);
  }
}

void Machine::tensorCopy(Warp &warp, const Instruction &in, int lane) {
  if (in.op == Op::bulkLoad) {
    std::uint32_t to = sharedAddress(warp, in.args[0][0], lane), bar = sharedAddress(warp, in.args[3][0], lane);
    auto bytes = static_cast<std::uint32_t>(get(warp, in.args[2][0], lane));
    std::uint64_t from = addressOf(warp, in.args[1][0], lane);
    if (to % 16 || from % 16 || bytes % 16 || bytes == 0)
      fail("misaligned bulk copy", lane);
    sharedAt(to, bytes, lane);
    const unsigned char *source = global(from, bytes, false, lane);
    barAt(bar, lane);
    asyncs.push_back({Async::Kind::load, warp.number, lane, 0, [=] {
                        noteAsyncWrite(to, bytes);
                        std::memcpy(sharedAt(to, bytes, lane), source, bytes);
                        completeBytes(bar, bytes);
                      }});
    return;
  }
  if (in.op == Op::bulkStore) {
    std::uint32_t from = sharedAddress(warp, in.args[1][0], lane);
    auto bytes = static_cast<std::uint32_t>(get(warp, in.args[2][0], lane));
    std::uint64_t to = addressOf(warp, in.args[0][0], lane);
    if (to % 16 || from % 16 || bytes % 16 || bytes == 0)
      fail("misaligned bulk copy", lane);
    sharedAt(from, bytes, lane);
    checkFenced(from, bytes, "a bulk store");
    unsigned char *p = global(to, bytes, true, lane);
    asyncs.push_back({Async::Kind::store, warp.number, lane, warp.bulkGroup[lane],
                      [=] { std::memcpy(p, sharedAt(from, bytes, lane), bytes); }});
    return;
  }
  bool load = in.op == Op::tensorLoad;
  std::uint32_t at = sharedAddress(warp, in.args[load ? 0 : 1][0], lane);
  const std::vector<Operand> &source = in.args[load ? 1 : 0];
  TensorMap map;
  std::memcpy(&map, global(addressOf(warp, source[0], lane), sizeof map, false, lane), sizeof map);
  if (map.magic != TensorMap().magic || static_cast<int>(map.rank) != in.n || source.size() != map.rank + 1)
    fail("not a tensor map of the copy's rank", lane);
  std::vector<std::int64_t> start;
  for (std::uint32_t i = 0; i < map.rank; ++i)
    start.push_back(static_cast<std::int32_t>(get(warp, source[i + 1], lane)));
  std::uint32_t elements = 1;
  for (std::uint32_t i = 0; i < map.rank; ++i)
    elements *= map.box[i];
  std::uint32_t size = map.elementBytes, bytes = elements * size;
  if (at % 128 || (map.swizzle && at % (8 * map.swizzle)))
    fail("a box in shared memory is not aligned", lane);
  if (map.swizzle && map.box[0] * size > map.swizzle)
    fail("the inner side of a box is larger than its swizzle", lane);
  sharedAt(at, bytes, lane);
  auto forElements = [=](const std::function<void(unsigned char *, unsigned char *)> &f) {
    for (std::uint32_t i = 0; i < elements; ++i) {
      std::uint64_t offset = 0;
      bool inside = true;
      std::uint32_t rest = i;
      for (std::uint32_t dim = 0; dim < map.rank; ++dim) {
        std::int64_t at = start[dim] + rest % map.box[dim];
        rest /= map.box[dim];
        inside &= at >= 0 && at < static_cast<std::int64_t>(map.dims[dim]);
        offset += static_cast<std::uint64_t>(at) * (dim == 0 ? size : map.strides[dim]);
      }
      f(sharedAt(applySwizzle(at + i * size, map.swizzle), size, lane),
        inside ? static_cast<unsigned char *>(map.base) + offset : nullptr);
    }
  };
  if (load) {
    std::uint32_t bar = sharedAddress(warp, in.args[2][0], lane);
    barAt(bar, lane);
    asyncs.push_back({Async::Kind::load, warp.number, lane, 0, [=] {
                        noteAsyncWrite(at, bytes);
                        forElements([&](unsigned char *to, unsigned char *from) {
                          if (from)
                            std::memcpy(to, global(reinterpret_cast<std::uint64_t>(from), size, false, lane), size);
                          else
                            std::memset(to, 0, size);
                        });
                        completeBytes(bar, bytes);
                      }});
    return;
  }
  checkFenced(at, bytes, "a tensor store");
  asyncs.push_back({Async::Kind::store, warp.number, lane, warp.bulkGroup[lane], [=] {
                      forElements([&](unsigned char *from, unsigned char *to) {
                        if (to)
                          std::memcpy(global(reinterpret_cast<std::uint64_t>(to), size, true, lane), from, size);
                      });
                    }});
}
