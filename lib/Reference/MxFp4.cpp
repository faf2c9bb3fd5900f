//===- MxFp4.cpp - MXFP4 weights as the checkpoint packs them -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/MxFp4.h"
#include "lib/Reference/Common.h"

#include <cmath>
#include <limits>

using namespace k3::ref;

double k3::ref::decodeE2M1(std::uint8_t code) {
  require(code < 16, "decodeE2M1: a code has four bits");
  static const double magnitude[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}

double k3::ref::decodeE8M0(std::uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

Vec k3::ref::dequantMxFp4(const std::uint8_t *packed, const std::uint8_t *scale, Index rows, Index cols, Index group) {
  require(cols % 2 == 0 && group > 0, "dequantMxFp4: columns must be even and the group positive");
  Index groups = (cols + group - 1) / group;
  Vec out(rows * cols);
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; ++c) {
      std::uint8_t byte = packed[(r * cols + c) / 2];
      std::uint8_t nibble = c % 2 ? byte >> 4 : byte & 15;
      out[r * cols + c] = decodeE2M1(nibble) * decodeE8M0(scale[r * groups + c / group]);
    }
  return out;
}

Vec k3::ref::mxLinear(View x, const std::uint8_t *packed, const std::uint8_t *scale, Index rows, Index in, Index out,
                      Index group) {
  return linear(x, dequantMxFp4(packed, scale, out, in, group), rows, in, out);
}
