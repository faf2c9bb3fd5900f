//===- MemoryPlan.h - bytes of states, caches and weights -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_MEMORYPLAN_H
#define K3_FRONTEND_MEMORYPLAN_H

#include "frontend/ModelConfig.h"

namespace k3::frontend {

/// What a model needs, from its config alone. All in bytes.
struct MemoryPlan {
  /// KDA matrices of one sequence: layers * heads * d_k * d_v, always f32.
  uint64_t recurrent_bytes_per_sequence = 0;
  /// The last (taps - 1) raw q, k and v projections of every KDA layer.
  uint64_t conv_bytes_per_sequence = 0;
  /// Both together: what a sequence needs whatever its length.
  uint64_t state_bytes_per_sequence = 0;
  /// Latent cache per token: MLA layers * (kv_lora_rank + qk_rope_head_dim).
  uint64_t kv_bytes_per_token = 0;
  /// One routed expert (w1, w2, w3) as stored, scales included; 0 without MoE.
  uint64_t expert_bytes = 0;
  /// Every tensor of the text model in the form the family releases it. The
  /// total_size of an index also counts the vision part, if there is one.
  uint64_t weight_bytes = 0;
};

/// `elementBytes`: of one value of the latent cache and the conv window, 2
/// (bf16) or 4 (f32). Returns nullopt if the weights would exceed 2^60 bytes,
/// which parseModelConfig has already refused.
std::optional<MemoryPlan> planMemory(const ModelConfig &config,
                                     unsigned elementBytes = 2);

} // namespace k3::frontend

#endif // K3_FRONTEND_MEMORYPLAN_H
