//===- ArenaLayout.h - where a program's buffers are ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The artifact places a program's transient buffers for its largest step. An
// engine whose steps are all smaller moves them together: what lay apart still
// does, so that what may share memory is as the compiler decided.
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_ARENALAYOUT_H
#define K3RT_ARTIFACT_ARENALAYOUT_H

#include "runtime/src/artifact/Terms.h"

#include <vector>

namespace k3rt {

struct ArenaLayout {
  /// Per buffer of the program, in bytes, multiples of bufferAlignment; 0 for
  /// inputs and outputs, which are not in the arena.
  std::vector<uint64_t> offsets;
  uint64_t bytes = 0; ///< of the arena
};

/// For steps of at most `largest`. `program` belongs to an artifact that passed
/// checkArtifact.
ArenaLayout layOutArena(const k3::artifact::Program &program,
                        const SymbolValues &largest);

} // namespace k3rt

#endif // K3RT_ARTIFACT_ARENALAYOUT_H
