//===- Fingerprint.h - which model states belong to ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_FINGERPRINT_H
#define K3RT_ARTIFACT_FINGERPRINT_H

#include "runtime/src/artifact/WeightStore.h"

namespace k3rt {

/// Equal for artifacts of the same model whatever they were compiled for, and
/// different where states cannot be exchanged: hashes config.json, the kinds,
/// element types and shapes of states (not their pages), and the first bytes of
/// every weight.
uint64_t modelFingerprint(const k3::artifact::Artifact &index,
                          const WeightStore &weights);

} // namespace k3rt

#endif // K3RT_ARTIFACT_FINGERPRINT_H
