//===- NonFinite.h - looking for NaN and infinity ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_STATE_NONFINITE_H
#define K3RT_STATE_NONFINITE_H

#include "runtime/schemas/k3_artifact_generated.h"

#include <cstdint>

namespace k3rt {

/// Index of the first value that is not finite, or `count`.
uint64_t findNonFinite(const float *values, uint64_t count);

/// `data` has any alignment. Types without such values are finite.
bool allFinite(k3::artifact::DType dtype, const char *data, uint64_t bytes);

} // namespace k3rt

#endif // K3RT_STATE_NONFINITE_H
