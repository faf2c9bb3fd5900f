//===- StateFile.h - states of sequences on disk -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Layout, little-endian:
//   0    StateFileHeader
//   64   token ids, i32, then zeros up to a multiple of 64
//   ...  a copy of the state, the same on all devices
//===----------------------------------------------------------------------===//
#ifndef K3RT_STATE_STATEFILE_H
#define K3RT_STATE_STATEFILE_H

#include "runtime/src/base/Memory.h"

#include <vector>

namespace k3rt {

/// A copy of the state as StatePool::save makes it, or as the prefix cache keeps
/// it.
enum class StateFileKind : uint64_t { snapshot = 0, prefix = 1 };

struct StateFileHeader {
  char magic[4];
  uint32_t version;
  uint64_t model; ///< fingerprint of the model that computed the state
  uint64_t tokens;
  uint64_t stateBytes;
  uint64_t tokensHash, stateHash; ///< XXH3-64
  uint64_t kind;
  uint64_t headerHash; ///< XXH3-64 of the bytes before this field
};
static_assert(sizeof(StateFileHeader) == 64, "file format");

/// What a file must agree with.
struct StateFileModel {
  uint64_t fingerprint = 0;
  uint64_t fixedBytes = 0, bytesPerToken = 0; ///< of a copy
  uint32_t vocabSize = 0;
};

/// Replaces `path` only once the new file is complete; `outBytes` is its size.
/// Error: K3RT_IO_ERROR, and nothing is left.
Status writeStateFile(const std::string &path, StateFileKind kind,
                      uint64_t model, const std::vector<int32_t> &tokens,
                      const char *state, uint64_t stateBytes,
                      uint64_t &outBytes);

/// Nothing of the file is trusted before it is checked. Errors: K3RT_IO_ERROR,
/// K3RT_BAD_ARTIFACT (not a state file, another version or model, damaged),
/// K3RT_OUT_OF_MEMORY.
Status readStateFile(const std::string &path, StateFileKind kind,
                     const StateFileModel &model,
                     std::vector<int32_t> &outTokens, Allocation &outState);

} // namespace k3rt

#endif // K3RT_STATE_STATEFILE_H
