//===- MxFp4Test.cpp - All codes, all scales, nibble order ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/MxFp4.h"
#include "TestSupport.h"
#include "lib/Reference/Common.h"

using namespace k3::ref;
using namespace k3::ref::test;

using Bytes = std::vector<std::uint8_t>;

TEST(MxFp4, ElementCodes) { // public fault Q02
  Vec expected{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    EXPECT_EQ(decodeE2M1(code), expected[code]);
    EXPECT_EQ(decodeE2M1(code + 8), -expected[code]);
    EXPECT_TRUE(std::signbit(decodeE2M1(code + 8)));
  }
}

TEST(MxFp4, AllCodesTimesAllScales) { // public fault Q01
  Vec magnitude{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int scale = 0; scale < 256; ++scale)
    for (int code = 0; code < 16; ++code) {
      Bytes packed{std::uint8_t(code | code << 4)}, scales{std::uint8_t(scale)};
      for (double value : dequantMxFp4(packed.data(), scales.data(), 1, 2)) {
        if (scale == 255) {
          EXPECT_TRUE(std::isnan(value));
          continue;
        }
        double expected = (code < 8 ? 1 : -1) * magnitude[code % 8] * std::pow(2.0, scale - 127);
        EXPECT_EQ(value, expected) << "code " << code << " scale " << scale;
        EXPECT_EQ(std::signbit(value), code >= 8);
        if (scale < 253) // above, 6 * 2^scale leaves the range of float
          EXPECT_EQ(double(float(value)), value);
      }
    }
  EXPECT_EQ(decodeE8M0(0), std::ldexp(1.0, -127));
}

TEST(MxFp4, LowNibbleIsTheEvenElement) { // public fault Q03
  Bytes packed{0x21}, one{127}, eight{130};
  EXPECT_EQ(dequantMxFp4(packed.data(), one.data(), 1, 2), (Vec{0.5, 1.0}));
  EXPECT_EQ(dequantMxFp4(packed.data(), eight.data(), 1, 2), (Vec{4, 8}));
}

TEST(MxFp4, GroupsOfThirtyTwoAndTail) {
  Bytes packed(2 * 20, 0x22), scales{127, 128, 129, 130};
  Vec w = dequantMxFp4(packed.data(), scales.data(), 2, 40);
  for (Index c = 0; c < 40; ++c) {
    EXPECT_EQ(w[c], c < 32 ? 1 : 2);
    EXPECT_EQ(w[40 + c], c < 32 ? 4 : 8);
  }
}

TEST(MxFp4, LinearOnPackedWeights) {
  Random random(1);
  Bytes packed(3 * 32), scales{120, 127, 130, 125, 126, 127};
  for (std::size_t i = 0; i < packed.size(); ++i)
    packed[i] = std::uint8_t(37 * i + 11);
  Vec x = random.normal(2 * 64), w = dequantMxFp4(packed.data(), scales.data(), 3, 64);
  EXPECT_EQ(mxLinear(x, packed.data(), scales.data(), 2, 64, 3), linear(x, w, 2, 64, 3));
}
