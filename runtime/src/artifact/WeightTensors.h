//===- WeightTensors.h - the tensors that weights consist of -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A weight is one tensor, or one per expert where it is a group. Their order is
// that of the artifact, expert by expert.
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_WEIGHTTENSORS_H
#define K3RT_ARTIFACT_WEIGHTTENSORS_H

#include "runtime/schemas/k3_artifact_generated.h"

#include <cstdint>

namespace k3rt {

/// `weight` is one of an index that passed checkArtifact.
uint32_t tensorCount(const k3::artifact::Weight &weight);
/// Of one tensor.
uint64_t tensorBytes(const k3::artifact::Weight &weight);

/// Bytes that the weights of an index take on a GPU: every tensor, and a table of addresses for every group, at
/// multiples of deviceWeightAlignment. UINT64_MAX when there are more than can be counted.
uint64_t deviceWeightBytes(const k3::artifact::Artifact &index);
constexpr uint64_t deviceWeightAlignment = 256;

} // namespace k3rt

#endif // K3RT_ARTIFACT_WEIGHTTENSORS_H
