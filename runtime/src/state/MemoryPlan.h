//===- MemoryPlan.h - how much memory an engine takes --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_STATE_MEMORYPLAN_H
#define K3RT_STATE_MEMORYPLAN_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/artifact/ArenaLayout.h"
#include "runtime/src/base/DeviceName.h"
#include "runtime/src/base/Progress.h"
#include "runtime/src/base/Status.h"

namespace k3rt {

/// Which products a library does in place of the artifact's kernels.
enum class LibraryUse : uint8_t { never, forLarge, always };

/// k3rt_engine_options with defaults filled in where they do not depend on the
/// artifact.
struct EngineOptions {
  uint32_t threads = 0;
  uint64_t memoryLimit = 0;
  uint64_t snapshotLimit = 0;
  uint64_t prefixCacheBytes = 0;
  std::string prefixSpillFolder;
  uint64_t prefixSpillBytes = 0;
  uint32_t maxSequences = 0;
  uint64_t maxContext = 0;
  uint32_t prefillWindow = 0;
  bool poison = false;
  bool deterministic = false;
  bool trapNonFinite = false;
  std::string trapFolder; ///< empty = no dumps
  bool verifyWeights = false;
  std::string weightsDir;
  uint64_t randomWeights = 0; ///< seed; 0 = weights are read
  DeviceName device;
  bool graph = true; ///< GPU: decode as a graph
  LibraryUse library = LibraryUse::forLarge;
  Progress progress;
};

/// Sizes in bytes unless named otherwise. The one place that computes them.
struct MemoryPlan {
  uint32_t threads = 0;       ///< count, including the caller's
  uint32_t slots = 0;         ///< live sequences
  uint64_t maxContext = 0;    ///< tokens per sequence
  uint32_t prefillWindow = 0; ///< rows per prefill step
  uint32_t pageTokens = 0;    ///< tokens per cache page; 0 = no cache
  uint32_t pagesPerSequence = 1;
  uint32_t pages = 1;

  uint64_t recurrentPerSequence = 0, convPerSequence = 0;
  uint64_t kvPerToken = 0; ///< over all layers
  uint64_t statePool = 0, kvPool = 0;
  uint64_t arena = 0;   ///< of the program whose steps need most
  uint64_t inputs = 0;  ///< i32 inputs of a step, all of them
  uint32_t banSets = 0; ///< of the device's programs; 0 = it chooses no tokens
  uint64_t sampling = 0; ///< what these take, and the ids of one program run
  uint64_t runLogits = 0;  ///< of one program run, if it cannot write in place
  uint64_t stepLogits = 0; ///< of a step, a row per sequence, on the host
  uint64_t scratchPerThread = 0;
  uint64_t weights = 0; ///< on a GPU; the CPU only maps them
  bool onGpu = false;

  /// The large ones as text, for messages.
  std::string parts() const;

  /// Cache pages that `tokens` take.
  uint64_t pagesFor(uint64_t tokens) const {
    return pageTokens ? (tokens + pageTokens - 1) / pageTokens : 0;
  }
  uint64_t pageBytes() const { return kvPerToken * pageTokens; }
  /// All that memory_limit counts: on a GPU what is in its memory.
  uint64_t total() const {
    uint64_t both = statePool + kvPool + arena + inputs + sampling + runLogits;
    return both + (onGpu ? weights : stepLogits + scratchPerThread * threads);
  }
};

/// The largest run of `program` in an engine of this plan: no more rows than a
/// window has, or than the sequences of a run can have.
SymbolValues largestStep(const k3::artifact::Program &program,
                         const MemoryPlan &plan);

/// Where the buffers of `program` are in the arena of an engine of this plan.
ArenaLayout planArena(const k3::artifact::Program &program,
                      const MemoryPlan &plan);

/// Errors: K3RT_INVALID_ARGUMENT for options out of range, K3RT_UNSUPPORTED when
/// there is no program for the device, K3RT_OUT_OF_MEMORY when memory_limit cannot hold the fixed parts and one page per sequence
/// (with both sizes).
Status planMemory(const k3::artifact::Artifact &index,
                  const EngineOptions &options, MemoryPlan &out);

/// The most sequences of `tokens` tokens each, all at that length, that
/// options.memoryLimit holds; 0 if not even one fits, or `tokens` is more than
/// the model's limit. options.maxSequences and maxContext are not used.
uint64_t planCapacity(const k3::artifact::Artifact &index,
                      const EngineOptions &options, uint64_t tokens);

} // namespace k3rt

#endif // K3RT_STATE_MEMORYPLAN_H
