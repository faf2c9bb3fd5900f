//===- MxFp4.cpp - MXFP4 weights decoded to bf16 in registers -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/MxFp4.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Of both halves of a word: the sign of a bf16, where a magnitude is placed, and a code.
constexpr uint32_t signBits = 0x80008000, magnitudeBits = 0x01C001C0, codeBits = 0x000F000F;
/// One in the lowest bit of the exponent of both halves.
constexpr uint32_t exponentOnes = 0x00800080;
} // namespace

static Value maskBits(const GpuBuilder &g, Value x, uint32_t mask) { return g.bitAnd(x, static_cast<int32_t>(mask)); }

/// Places the codes that start at bit `first` of both halves. One multiplication shifts twice, for the magnitude and for
/// the sign; the eight bits that it makes of a code do not meet, nor do they leave their half.
static Value placeAlone(const GpuBuilder &g, Value x, int64_t first) {
  assert(first <= 6 && "a code is shifted to the left");
  int64_t factor = (int64_t(1) << (6 - first)) + (int64_t(1) << (12 - first));
  return maskBits(g, g.mul(maskBits(g, x, codeBits << first), factor), signBits | magnitudeBits);
}

SmallVector<Value> k3::placeCodes(const GpuBuilder &g, Value word) {
  // The bits of code p are 4p + 3 (sign) and 4p + 2 to 4p, in both halves. The last magnitude is in its place after the
  // shift that brings code 2 to bit 2, the last sign without one.
  Value shifted = g.shr(word, 6);
  return {placeAlone(g, word, 0), placeAlone(g, word, 4), placeAlone(g, shifted, 2),
          g.bitOr(maskBits(g, word, signBits), maskBits(g, shifted, magnitudeBits))};
}

SmallVector<Value> k3::placeNeighbours(const GpuBuilder &g, Value word) {
  SmallVector<Value> pairs;
  // The codes of each byte in the low bits of bytes.
  Value low = maskBits(g, word, 0x0F0F0F0F), high = maskBits(g, g.shr(word, 4), 0x0F0F0F0F);
  for (int64_t p = 0; p < 4; ++p) {
    // Byte p of both in the low bytes of the halves. The others are its highest bit, which is 0, eight times.
    constexpr int64_t selectors = 0xC480;
    Value both = g.intrinsic(g.i32(), "llvm.nvvm.prmt", {low, high, g.i32(selectors + 0x1111 * p)});
    pairs.push_back(placeAlone(g, both, 0));
  }
  return pairs;
}

Value k3::getPlainFactor(const GpuBuilder &g, Value scale) {
  // Exponent s - 1 + 127 in both halves.
  return g.add(g.mul(scale, exponentOnes), static_cast<int64_t>(126) * exponentOnes);
}

std::pair<Value, Value> k3::getFactors(const GpuBuilder &g, Value scale) {
  // 2^126, and 2^(s - 127): subnormal for s = 0.
  Value second = g.mul(scale, exponentOnes);
  second = g.select(g.eq(scale, 0), g.i32(0x00400040), second);
  second = g.select(g.eq(scale, 255), g.i32(0x7FC07FC0), second);
  return {g.i32(static_cast<int32_t>(253 * exponentOnes)), second};
}

Value k3::multiplyPairs(const GpuBuilder &g, Value x, Value y) {
  Type pair = g.vectorOf(2, g.bf16());
  return g.bitcast(g.mul(g.bitcast(x, pair), g.bitcast(y, pair)), g.i32());
}
