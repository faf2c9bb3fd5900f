//===- MxFp4.h - MXFP4 weights as the checkpoint packs them ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

namespace k3::ref {

/// Value of a 4-bit E2M1 code, 0..15: bit 3 is the sign, codes 0..7 are 0, .5, 1, 1.5, 2, 3, 4, 6; code 8 is -0.
double decodeE2M1(std::uint8_t code);

/// Value of an E8M0 scale code: 2^(code - 127), so code 0 is 2^-127; 255 is NaN.
double decodeE8M0(std::uint8_t code);

/// value[o,i] = E2M1[nibble] * E8M0[scale[o, i/group]]. Spec 4.3.
/// packed [rows, cols/2]: the low nibble of byte j is column 2j, the high nibble 2j+1. scale [rows, ceil(cols/group)].
/// cols is even. All values of finite scales are exact in float too -> [rows, cols]. A NaN scale makes its group NaN.
Vec dequantMxFp4(const std::uint8_t *packed, const std::uint8_t *scale, Index rows, Index cols, Index group = 32);

/// out[t,o] = sum_i x[t,i] * value[o,i]: linear() on packed weights (k3.mx.contract). x [rows,in] -> [rows,out].
Vec mxLinear(View x, const std::uint8_t *packed, const std::uint8_t *scale, Index rows, Index in, Index out,
             Index group = 32);

} // namespace k3::ref
