//===- RandomWeights.h - weights made up for measuring -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_RANDOMWEIGHTS_H
#define K3RT_ARTIFACT_RANDOMWEIGHTS_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/base/Memory.h"
#include "runtime/src/base/Progress.h"
#include "runtime/src/base/ThreadPool.h"

#include <vector>

namespace k3rt {

/// Fills `memory` with all weights of an index that passed checkArtifact, whether or not it has stored ones. `tensors`:
/// where each begins, at a multiple of 64 bytes; a group has one per expert. Values keep activations in a natural
/// range:
///   matrices           uniform in +-sqrt(3 / in_features), so that their variance is 1 / in_features
///   MXFP4              random codes, scales for the same variance (within a factor of 2)
///   norm gains         1
///   A_log, biases      uniform in +-0.1
/// They depend on the seed, the weight's name, expert and position alone. Error: K3RT_OUT_OF_MEMORY.
Status makeRandomWeights(const k3::artifact::Artifact &index, uint64_t seed, ThreadPool &threads,
                         const Progress &progress, Allocation &memory, std::vector<const char *> &tensors);

} // namespace k3rt

#endif // K3RT_ARTIFACT_RANDOMWEIGHTS_H
