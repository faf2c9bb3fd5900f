//===- MemoryPlan.cpp - bytes of states, caches and weights ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/MemoryPlan.h"
#include "frontend/TensorPlan.h"

namespace k3::frontend {

std::optional<MemoryPlan> planMemory(const ModelConfig &config,
                                     unsigned elementBytes) {
  TensorPlan tensors(config);
  std::optional<uint64_t> weights = tensors.bytes();
  if (!weights)
    return std::nullopt;

  MemoryPlan plan;
  plan.weight_bytes = *weights;
  for (const TensorTemplate &entry : tensors.templates())
    if (entry.isPerExpert())
      plan.expert_bytes += entry.forms[0].bytes();

  const uint64_t kdaLayers = static_cast<uint64_t>(config.numKdaLayers());
  const uint64_t width = static_cast<uint64_t>(config.kda.projectionSize());
  if (kdaLayers > 0) {
    plan.recurrent_bytes_per_sequence =
        kdaLayers * width * static_cast<uint64_t>(config.kda.head_dim) *
        sizeof(float);
    plan.conv_bytes_per_sequence =
        kdaLayers * 3 * width *
        static_cast<uint64_t>(config.kda.short_conv_kernel_size - 1) *
        elementBytes;
  }
  plan.state_bytes_per_sequence =
      plan.recurrent_bytes_per_sequence + plan.conv_bytes_per_sequence;
  plan.kv_bytes_per_token = static_cast<uint64_t>(config.numMlaLayers()) *
                            static_cast<uint64_t>(config.mla.cacheWidth()) *
                            elementBytes;
  return plan;
}

} // namespace k3::frontend
