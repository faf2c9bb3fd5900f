//===- DType.h - element types of an artifact ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_DTYPE_H
#define K3RT_ARTIFACT_DTYPE_H

#include "runtime/schemas/k3_artifact_generated.h"

#include <cstdint>

namespace k3rt {

/// 0 for a value that the schema does not know.
constexpr uint32_t elementBytes(k3::artifact::DType dtype) {
  switch (dtype) {
  case k3::artifact::DType::F32:
  case k3::artifact::DType::I32:
    return 4;
  case k3::artifact::DType::BF16:
    return 2;
  case k3::artifact::DType::I8:
  case k3::artifact::DType::U8:
    return 1;
  }
  return 0;
}

} // namespace k3rt

#endif // K3RT_ARTIFACT_DTYPE_H
