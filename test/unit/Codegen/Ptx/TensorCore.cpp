//===- TensorCore.cpp - mma, wgmma and the loads and stores of fragments --===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Block.h"

#include <algorithm>

namespace k3::test::ptx {

namespace {

double half(Bits reg, unsigned index) { return asBf16(reg >> (16 * index)); }

/// Row and column of half `h` of register `i` of a 16 x 16 A fragment.
struct Place {
  unsigned row, column;
};
Place placeInA(unsigned lane, unsigned i, unsigned h) { return {lane / 4 + 8 * (i % 2), 2 * (lane % 4) + 8 * (i / 2) + h}; }

//===----------------------------------------------------------------------===//
// mma.sync m16n8k16, bf16 x bf16 + f32
//===----------------------------------------------------------------------===//

void multiply(Warp &w, const std::vector<Operand> &ops) {
  double a[16][16], b[16][8];
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned i = 0; i < 4; ++i) {
        Place at = placeInA(lane, i, h);
        a[at.row][at.column] = half(w.read(ops[1].parts[i], lane), h);
      }
      for (unsigned i = 0; i < 2; ++i)
        b[2 * (lane % 4) + 8 * i + h][lane / 4] = half(w.read(ops[2].parts[i], lane), h);
    }
  Bits d[32][4];
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      double sum = asF32(w.read(ops[3].parts[i], lane));
      for (unsigned k = 0; k < 16; ++k)
        sum += a[row][k] * b[k][column];
      d[lane][i] = ofF32(static_cast<float>(sum));
    }
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      w.write(ops[0].parts[i], lane, d[lane][i]);
}

//===----------------------------------------------------------------------===//
// wgmma
//===----------------------------------------------------------------------===//

/// A matrix in shared memory, as the 64 bits of a descriptor tell it.
struct MatrixDescriptor {
  std::uint64_t start, leading, stride, swizzle; ///< bytes
  explicit MatrixDescriptor(Bits bits)
      : start((bits & 0x3FFF) << 4), leading((bits >> 16 & 0x3FFF) << 4), stride((bits >> 32 & 0x3FFF) << 4) {
    static constexpr std::uint64_t modes[] = {0, 128, 64, 32};
    swizzle = modes[bits >> 62];
  }
  /// The swizzle exchanges 16-byte pieces by bits of the address itself.
  std::uint64_t swizzled(std::uint64_t address) const {
    return address ^ (address >> 3 & (swizzle == 128 ? 0x70 : swizzle == 64 ? 0x30 : swizzle == 32 ? 0x10 : 0));
  }
  /// Of element (row, k); rows are those of m or n. `transposed`: rows follow each other in memory.
  std::uint64_t address(std::uint64_t row, std::uint64_t k, bool transposed) const {
    if (swizzle == 0) // core matrices of 8 x 16 bytes
      return transposed ? start + row / 8 * leading + row % 8 * 2 + k / 8 * stride + k % 8 * 16
                        : start + row / 8 * stride + row % 8 * 16 + k / 8 * leading + k % 8 * 2;
    if (!transposed)
      return swizzled(start + row / 8 * stride + row % 8 * swizzle + k * 2);
    std::uint64_t width = swizzle / 2; // elements
    return swizzled(start + row / width * leading + row % width * 2 + k / 8 * stride + k % 8 * swizzle);
  }
};

struct Wgmma {
  std::vector<Operand> accumulators;
  Operand a, b, scale;
  bool aInRegisters = false, transposeA = false, transposeB = false;
  unsigned n = 0;
  double sign = 1;
};

/// What an instruction was issued with.
struct Issued {
  std::vector<Bits> fragment;
  MatrixDescriptor a, b;
  bool accumulate;
  Access who;
  Clocks known;
};

double element(Warp &w, const Issued &issued, const MatrixDescriptor &matrix, unsigned row, unsigned k, bool transposed) {
  std::uint16_t bits;
  std::memcpy(&bits, w.block->asyncShared(matrix.address(row, k, transposed), 2, false, issued.who, issued.known), 2);
  return asBf16(bits);
}

/// A warp's part: 16 of the 64 rows.
void multiply(Warp &w, const Wgmma &op, const Issued &issued) {
  double a[16][16];
  if (op.aInRegisters) {
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned h = 0; h < 2; ++h) {
          Place at = placeInA(lane, i, h);
          a[at.row][at.column] = half(issued.fragment[lane * 4 + i], h);
        }
  } else {
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned k = 0; k < 16; ++k)
        a[row][k] = element(w, issued, issued.a, w.number % 4 * 16 + row, k, op.transposeA);
  }
  std::vector<double> b(static_cast<std::size_t>(op.n) * 16);
  for (unsigned n = 0; n < op.n; ++n)
    for (unsigned k = 0; k < 16; ++k)
      b[n * 16 + k] = element(w, issued, issued.b, n, k, op.transposeB);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < op.accumulators.size(); ++i) {
      unsigned row = lane / 4 + 8 * (i / 2 % 2), column = i / 4 * 8 + 2 * (lane % 4) + i % 2;
      double sum = issued.accumulate ? asF32(w.read(op.accumulators[i], lane)) : 0;
      for (unsigned k = 0; k < 16; ++k)
        sum += op.sign * a[row][k] * b[column * 16 + k];
      w.write(op.accumulators[i], lane, ofF32(static_cast<float>(sum)));
    }
}

/// The four warps of a warpgroup multiply together: what one of them has waited for is done for all.
void waitForMatrices(Warp &w, std::uint64_t keep) {
  std::uint64_t upTo = w.matrixGroups > keep ? w.matrixGroups - keep : 0;
  Warp *group = &w.block->warps[w.number / 4 * 4];
  for (int i = 0; i < 4; ++i)
    if (group[i].matrixGroups < upTo) {
      w.stalled = true;
      return;
    }
  std::uint32_t clock = 0;
  for (int i = 0; i < 4; ++i) {
    group[i].matrices.wait(std::min<std::uint64_t>(group[i].matrixGroups - upTo, group[i].matrices.committed.size()));
    clock = std::max(clock, group[i].matrixClock);
  }
  w.clocks.at[w.matrixActor()] = std::max(w.clocks.at[w.matrixActor()], clock);
}

void decodeWgmma(Instruction &in) {
  const std::string what = in.words[1];
  in.wholeWarp = true;
  if (what == "fence") {
    in.execute = [](Warp &, std::uint32_t) {};
    return;
  }
  if (what == "commit_group") {
    in.execute = [](Warp &w, std::uint32_t) {
      w.matrices.commit();
      ++w.matrixGroups;
    };
    return;
  }
  if (what == "wait_group") {
    in.execute = [keep = in.operands[0].value](Warp &w, std::uint32_t) { waitForMatrices(w, keep); };
    return;
  }
  if (what != "mma_async" || !in.has("bf16") || !in.has("f32"))
    fail("unknown shape or types");
  Wgmma op;
  for (const std::string &part : in.words)
    if (part.compare(0, 4, "m64n") == 0)
      op.n = static_cast<unsigned>(std::stoul(part.substr(4)));
  const std::vector<Operand> &ops = in.operands;
  if (ops.size() < 6)
    fail("too few operands");
  op.accumulators = ops[0].parts;
  if (op.accumulators.size() != op.n / 2)
    fail("expected " + std::to_string(op.n / 2) + " accumulators");
  op.a = ops[1];
  op.aInRegisters = ops[1].kind == Operand::Vector;
  op.b = ops[2];
  op.scale = ops[3];
  op.sign = static_cast<double>(static_cast<std::int32_t>(ops[4].value) * static_cast<std::int32_t>(ops[5].value));
  auto flag = [&](std::size_t i) { return ops.size() > i && ops[i].value != 0; };
  op.transposeA = !op.aInRegisters && flag(6);
  op.transposeB = flag(op.aInRegisters ? 6 : 7);
  in.execute = [op](Warp &w, std::uint32_t) {
    if (w.number / 4 * 4 + 4 > w.block->warps.size())
      fail("a warpgroup has four warps");
    Access who{Access::matrix, w.matrixActor(), ++w.block->asyncClock, 0};
    Issued issued{{}, MatrixDescriptor(op.aInRegisters ? 0 : w.read(op.a, 0)), MatrixDescriptor(w.read(op.b, 0)),
                  w.read(op.scale, 0) != 0, who, w.clocks};
    if (op.aInRegisters)
      for (unsigned lane = 0; lane < 32; ++lane)
        for (const Operand &part : op.a.parts)
          issued.fragment.push_back(w.read(part, lane));
    bool late = w.block->lateMatrices;
    if (!late)
      multiply(w, op, issued);
    w.matrices.open.push_back([&w, op, issued, late] {
      if (late)
        multiply(w, op, issued);
      w.matrixClock = std::max(w.matrixClock, issued.who.clock);
    });
  };
}

//===----------------------------------------------------------------------===//
// 8 x 8 matrices of 16-bit elements
//===----------------------------------------------------------------------===//

void decodeMatrixCopy(Instruction &in, bool load) {
  if (!in.has("b16") || !in.has("m8n8"))
    fail("unknown shape or types");
  in.wholeWarp = true;
  const Operand &fragments = in.operands[load ? 0 : 1], &where = in.operands[load ? 1 : 0];
  std::vector<Operand> regs = fragments.kind == Operand::Vector ? fragments.parts : std::vector<Operand>{fragments};
  bool transposed = in.has("trans");
  in.execute = [regs, where, transposed, load](Warp &w, std::uint32_t) {
    // All addresses are read before anything is written: a result may be the register of an address.
    std::vector<std::array<std::array<std::uint16_t, 8>, 8>> matrices(regs.size());
    std::vector<std::uint8_t *> rows;
    MemoryUse use;
    use.writes = !load;
    for (unsigned row = 0; row < 8 * regs.size(); ++row) {
      rows.push_back(w.block->access(w, row, Space::Shared, w.address(where, row), 16, use));
      if (load)
        std::memcpy(matrices[row / 8][row % 8].data(), rows.back(), 16);
    }
    for (unsigned matrix = 0; matrix < regs.size(); ++matrix)
      for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned r = lane / 4, c = 2 * (lane % 4);
        auto at = [&](unsigned h) -> std::uint16_t & {
          return transposed ? matrices[matrix][c + h][r] : matrices[matrix][r][c + h];
        };
        if (load) {
          w.write(regs[matrix], lane, static_cast<Bits>(at(0)) | static_cast<Bits>(at(1)) << 16);
        } else {
          Bits value = w.read(regs[matrix], lane);
          at(0) = static_cast<std::uint16_t>(value);
          at(1) = static_cast<std::uint16_t>(value >> 16);
        }
      }
    if (!load)
      for (unsigned row = 0; row < rows.size(); ++row)
        std::memcpy(rows[row], matrices[row / 8][row % 8].data(), 16);
  };
}

void decodeMoveMatrix(Instruction &in) {
  in.wholeWarp = true;
  in.execute = [d = in.operands[0], a = in.operands[1]](Warp &w, std::uint32_t) {
    Bits elements[8][8];
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned h = 0; h < 2; ++h)
        elements[lane / 4][2 * (lane % 4) + h] = w.read(a, lane) >> (16 * h) & 0xFFFF;
    for (unsigned lane = 0; lane < 32; ++lane)
      w.write(d, lane, elements[2 * (lane % 4)][lane / 4] | elements[2 * (lane % 4) + 1][lane / 4] << 16);
  };
}

} // namespace

void decodeTensorCore(Instruction &in) {
  const std::string &name = in.words[0];
  if (name == "wgmma")
    return decodeWgmma(in);
  if (name == "ldmatrix" || name == "stmatrix")
    return decodeMatrixCopy(in, name == "ldmatrix");
  if (name == "movmatrix")
    return decodeMoveMatrix(in);
  if (!in.has("m16n8k16") || !in.has("bf16") || !in.has("row") || !in.has("col"))
    fail("unknown shape or types");
  in.wholeWarp = true;
  in.execute = [ops = in.operands](Warp &w, std::uint32_t) { multiply(w, ops); };
}

} // namespace k3::test::ptx
