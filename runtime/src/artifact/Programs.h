//===- Programs.h - the programs for one device --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_PROGRAMS_H
#define K3RT_ARTIFACT_PROGRAMS_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/base/DeviceName.h"

namespace k3rt {

/// What the device runs.
k3::artifact::ExecutableKind executableKind(const DeviceName &device);

/// Null if there is none.
const k3::artifact::Program *findProgram(const k3::artifact::Artifact &index, k3::artifact::Phase phase,
                                         const DeviceName &device);

/// K3RT_UNSUPPORTED when an artifact that passed checkArtifact has no programs for `device`.
Status checkHasPrograms(const k3::artifact::Artifact &index, const DeviceName &device);

} // namespace k3rt

#endif // K3RT_ARTIFACT_PROGRAMS_H
