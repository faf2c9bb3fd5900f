//===- MxFp4.cpp - MXFP4 weights decoded to bf16 in registers -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/GPU/Tile/MxFp4.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Of both halves of a word: the sign of a bf16, and where a magnitude is placed.
constexpr uint32_t signBits = 0x80008000, magnitudeBits = 0x01C001C0;
/// One in the lowest bit of the exponent of both halves.
constexpr uint32_t exponentOnes = 0x00800080;
} // namespace

static Value maskBits(const GpuBuilder &g, Value x, uint32_t mask) { return g.bitAnd(x, static_cast<int32_t>(mask)); }

/// `x` shifted left, or right where `distance` is negative.
static Value shift(const GpuBuilder &g, Value x, int64_t distance) {
  return distance == 0 ? x : distance > 0 ? g.shl(x, distance) : g.shr(x, -distance);
}

SmallVector<Value> k3::placeCodes(const GpuBuilder &g, Value word) {
  SmallVector<Value> pairs;
  for (int64_t p = 0; p < 4; ++p) // the code's bits are 4p + 3 (sign) and 4p + 2 to 4p, in both halves
    pairs.push_back(g.bitOr(maskBits(g, shift(g, word, 12 - 4 * p), signBits),
                            maskBits(g, shift(g, word, 6 - 4 * p), magnitudeBits)));
  return pairs;
}

SmallVector<Value> k3::placeNeighbours(const GpuBuilder &g, Value word) {
  SmallVector<Value> pairs;
  Value high = g.shr(word, 4); // the second weight of each byte in its low bits
  for (int64_t p = 0; p < 4; ++p) {
    // Byte p twice, of the word and of `high`: the codes' bits are 11 (sign) and 10 to 8 of both halves.
    Value both = g.intrinsic(g.i32(), "llvm.nvvm.prmt", {word, high, g.i32(0x4400 + 0x1111 * p)});
    pairs.push_back(g.bitOr(maskBits(g, g.shl(both, 4), signBits), maskBits(g, g.shr(both, 2), magnitudeBits)));
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
