//===- TensorCore.cpp - mma, wgmma and the loads and stores of fragments --===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/Ptx/Block.h"

#include <algorithm>
#include <cmath>

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

/// What wgmma multiplies: a step takes 32 bytes of k.
struct Elements {
  unsigned bytes;
  double (*valueOf)(Bits);
  /// sum + a b over the k of a step.
  float (*multiply)(float sum, const double *a, const double *b);
  unsigned depth() const { return 32 / bytes; }
};

float multiplyBf16(float sum, const double *a, const double *b) {
  double exact = sum;
  for (unsigned k = 0; k < 16; ++k)
    exact += a[k] * b[k];
  return static_cast<float>(exact);
}

/// Of an E4M3 as it is stored: subnormal ones have that of the smallest normal one.
int exponentOfE4m3(double x) { return std::max(std::ilogb(x), -6); }

/// All products and the sum are shifted to the largest exponent and lose what then lies below 13 fractional bits; so does
/// what they add up to, to its own exponent. This is what is known of Hopper: Xie et al., "MMA-Sim", arXiv:2511.10909
/// (compared bit by bit), and, of the 14 bits, the DeepSeek-V3 report, arXiv:2412.19437, 3.5.2. A product's exponent is
/// the sum of its factors' (it may be 2 and more times that power of 2); those that are 0 have none.
float multiplyE4m3(float sum, const double *a, const double *b) {
  constexpr int fraction = 13;
  auto cut = [](double x, int exponent) {
    return std::ldexp(std::trunc(std::ldexp(x, fraction - exponent)), exponent - fraction);
  };
  double all = sum;
  bool isZero = sum == 0;
  int largest = isZero ? 0 : std::ilogb(sum);
  for (unsigned k = 0; k < 32; ++k) {
    double product = a[k] * b[k];
    all += product;
    if (product == 0 || !std::isfinite(product))
      continue;
    int exponent = exponentOfE4m3(a[k]) + exponentOfE4m3(b[k]);
    largest = isZero ? exponent : std::max(largest, exponent);
    isZero = false;
  }
  if (isZero || !std::isfinite(all))
    return static_cast<float>(all);
  all = cut(sum, largest);
  for (unsigned k = 0; k < 32; ++k)
    all += cut(a[k] * b[k], largest);
  return all == 0 ? 0 : static_cast<float>(cut(all, std::ilogb(all)));
}

constexpr Elements bf16Elements = {2, [](Bits bits) -> double { return asBf16(bits); }, multiplyBf16};
constexpr Elements e4m3Elements = {1, [](Bits bits) -> double { return asE4m3(bits); }, multiplyE4m3};

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
  /// Of byte `k` of a row.
  std::uint64_t inRow(std::uint64_t row, std::uint64_t k) const {
    if (swizzle == 0) // core matrices of 8 rows of 16 bytes
      return start + row / 8 * stride + row % 8 * 16 + k / 16 * leading + k % 16;
    return swizzled(start + row / 8 * stride + row % 8 * swizzle + k);
  }
  /// Of element (row, k) where rows of 2-byte elements follow each other in memory.
  std::uint64_t transposed(std::uint64_t row, std::uint64_t k) const {
    if (swizzle == 0) // core matrices of 8 k of 16 bytes
      return start + row / 8 * stride + row % 8 * 2 + k / 8 * leading + k % 8 * 16;
    std::uint64_t width = swizzle / 2; // elements
    return swizzled(start + row / width * leading + row % width * 2 + k / 8 * stride + k % 8 * swizzle);
  }
};

struct Wgmma {
  Elements elements = bf16Elements;
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

double element(Warp &w, const Elements &elements, const Issued &issued, const MatrixDescriptor &matrix, unsigned row,
               unsigned k, bool transposed) {
  std::uint64_t at = transposed ? matrix.transposed(row, k) : matrix.inRow(row, std::uint64_t(k) * elements.bytes);
  Bits bits = 0;
  std::memcpy(&bits, w.block->asyncShared(at, elements.bytes, false, issued.who, issued.known), elements.bytes);
  return elements.valueOf(bits);
}

/// A warp's part: 16 of the 64 rows.
void multiply(Warp &w, const Wgmma &op, const Issued &issued) {
  const Elements &elements = op.elements;
  unsigned depth = elements.depth(), perRegister = 4 / elements.bytes;
  std::vector<double> a(std::size_t(16) * depth), b(std::size_t(op.n) * depth);
  if (op.aInRegisters) {
    // Registers are halves of rows g and g + 8: the first half of k in two, then the second half.
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned h = 0; h < perRegister; ++h) {
          unsigned row = lane / 4 + 8 * (i % 2), k = i / 2 * depth / 2 + lane % 4 * perRegister + h;
          a[row * depth + k] = elements.valueOf(issued.fragment[lane * 4 + i] >> (8 * elements.bytes * h));
        }
  } else {
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned k = 0; k < depth; ++k)
        a[row * depth + k] = element(w, elements, issued, issued.a, w.number % 4 * 16 + row, k, op.transposeA);
  }
  for (double &x : a)
    x *= op.sign;
  for (unsigned n = 0; n < op.n; ++n)
    for (unsigned k = 0; k < depth; ++k)
      b[n * depth + k] = element(w, elements, issued, issued.b, n, k, op.transposeB);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < op.accumulators.size(); ++i) {
      unsigned row = lane / 4 + 8 * (i / 2 % 2), column = i / 4 * 8 + 2 * (lane % 4) + i % 2;
      float sum = issued.accumulate ? asF32(w.read(op.accumulators[i], lane)) : 0;
      w.write(op.accumulators[i], lane, ofF32(elements.multiply(sum, &a[row * depth], &b[column * depth])));
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
  Wgmma op;
  auto counted = [&](const char *word) { return std::count(in.words.begin(), in.words.end(), word); };
  bool isFp8 = counted("e4m3") == 2;
  if (what != "mma_async" || (!isFp8 && counted("bf16") != 2) || !in.has("f32"))
    fail("unknown shape or types");
  if (isFp8)
    op.elements = e4m3Elements;
  for (const std::string &part : in.words)
    if (part.compare(0, 4, "m64n") == 0) {
      std::size_t behind;
      op.n = static_cast<unsigned>(std::stoul(part.substr(4), &behind));
      if (part.substr(4 + behind) != "k" + std::to_string(op.elements.depth()))
        fail("unknown shape or types");
    }
  const std::vector<Operand> &ops = in.operands;
  std::size_t flags = isFp8 ? 0 : ops[1].kind == Operand::Vector ? 1 : 2;
  if (ops.size() != 6 + flags)
    fail("expected " + std::to_string(6 + flags) + " operands, got " + std::to_string(ops.size()));
  op.accumulators = ops[0].parts;
  if (op.accumulators.size() != op.n / 2)
    fail("expected " + std::to_string(op.n / 2) + " accumulators");
  op.a = ops[1];
  op.aInRegisters = ops[1].kind == Operand::Vector;
  op.b = ops[2];
  op.scale = ops[3];
  op.sign = static_cast<double>(static_cast<std::int32_t>(ops[4].value) * static_cast<std::int32_t>(ops[5].value));
  op.transposeA = flags == 2 && ops[6].value != 0;
  op.transposeB = flags > 0 && ops.back().value != 0;
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
    for (unsigned row = 0; row < 8 * regs.size(); ++row) {
      rows.push_back(w.block->access(w, row, Space::Shared, w.address(where, row), 16, !load));
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
