//===- WeightValues.h - checks of stored weight values --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Values that would poison a model: a headers-only check cannot see them, so
// packing runs these over the bytes it copies.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_WEIGHTVALUES_H
#define K3_FRONTEND_WEIGHTVALUES_H

#include "frontend/Dtype.h"
#include "frontend/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace k3::frontend {

/// E8M0 scale bytes of one tensor of that shape: 0xFF is NaN and is refused,
/// naming file, tensor and position.
Status checkScales(const uint8_t *bytes, const std::vector<int64_t> &shape,
                   const std::string &tensor, const std::string &file);

/// Values of one F32, BF16 or F16 tensor, little-endian, of any alignment: NaN
/// and infinities are refused, naming file, tensor and position. Other dtypes
/// hold no such values and pass.
Status checkFinite(const void *bytes, Dtype dtype,
                   const std::vector<int64_t> &shape, const std::string &tensor,
                   const std::string &file);

/// A_log of F32 or BF16 with `count` entries of which `heads` are used: the
/// rest is padding and must be zero, otherwise the tensor may be meant per
/// channel.
Status checkALogPadding(const void *bytes, Dtype dtype, int64_t count,
                        int64_t heads, const std::string &tensor,
                        const std::string &file);

} // namespace k3::frontend

#endif // K3_FRONTEND_WEIGHTVALUES_H
