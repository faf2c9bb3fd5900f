//===- Fingerprint.h - which model states belong to ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_FINGERPRINT_H
#define K3RT_ARTIFACT_FINGERPRINT_H

#include "runtime/schemas/k3_artifact_generated.h"

#include <functional>

namespace k3rt {

/// Writes the first bytes of a weight, or of its first expert, to `out`.
using FirstBytes =
    std::function<void(uint32_t weight, char *out, uint64_t bytes)>;

/// Equal for artifacts of the same model whatever they were compiled for, and
/// different where states cannot be exchanged: hashes config.json, the kinds,
/// element types and shapes of states (not their pages), and the first bytes of
/// every weight.
uint64_t modelFingerprint(const k3::artifact::Artifact &index,
                          const FirstBytes &firstBytes);

} // namespace k3rt

#endif // K3RT_ARTIFACT_FINGERPRINT_H
