//===- CheckArtifact.h - is an index fit to be run? ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_CHECKARTIFACT_H
#define K3RT_ARTIFACT_CHECKARTIFACT_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/artifact/Terms.h"
#include "runtime/src/base/Status.h"

namespace k3rt {

/// What everything behind the check may rely on, so that it needs no checks of
/// its own: all ordinals are in range, enums known, strings and tables that are
/// used present, blobs and embedded weights inside [blobsBegin, length) and
/// aligned, sizes equal to shape x dtype, transient buffers inside their arena
/// for the program's largest step, layers of one kind alike, states unique;
/// kernels of the kind their program is, launches within the limits of CUDA, and
/// their tensor maps fit for the bindings' types and ranks.
///
/// `index` has passed the FlatBuffers verifier. Error: K3RT_BAD_ARTIFACT, one
/// line that names the place, what was found and what was wanted.
Status checkArtifact(const k3::artifact::Artifact &index, uint64_t blobsBegin,
                     uint64_t length);

/// The largest values of a program's own symbols; S, P and M, which the engine
/// chooses, are as given.
SymbolValues largestStep(const k3::artifact::Program &program, int64_t slots,
                         int64_t pages, int64_t pagesPerSequence);

/// Tiles of one group may not be more: they are counted in 32 bits.
constexpr int64_t maxTiles = int64_t(1) << 31;

} // namespace k3rt

#endif // K3RT_ARTIFACT_CHECKARTIFACT_H
