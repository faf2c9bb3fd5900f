//===- WeightTensors.cpp - the tensors that weights consist of -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/WeightTensors.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/base/Memory.h"

namespace k3rt {

namespace schema = k3::artifact;

uint32_t tensorCount(const schema::Weight &weight) {
  return weight.is_expert_group() ? uint32_t(weight.shape()->Get(0)) : 1;
}

uint64_t tensorBytes(const schema::Weight &weight) {
  uint64_t bytes = elementBytes(weight.dtype());
  if (weight.shape())
    for (int64_t size : *weight.shape())
      bytes *= uint64_t(size);
  return bytes / tensorCount(weight);
}

uint64_t deviceWeightBytes(const schema::Artifact &index) {
  uint64_t total = 0;
  if (!index.weights())
    return 0;
  for (const auto *weight : *index.weights()) {
    uint64_t count = tensorCount(*weight);
    uint64_t bytes = alignTo(tensorBytes(*weight), deviceWeightAlignment);
    uint64_t table = weight->is_expert_group() ? alignTo(count * sizeof(void *), deviceWeightAlignment) : 0;
    // A weight has at most 2^48 bytes and 2^24 tensors.
    if (__builtin_add_overflow(total, bytes * count + table, &total))
      return UINT64_MAX;
  }
  return total;
}

} // namespace k3rt
