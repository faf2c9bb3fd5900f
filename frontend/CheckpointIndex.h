//===- CheckpointIndex.h - model.safetensors.index.json -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Which shard holds which tensor. Kimi K3's index names 497,220 tensors, so
// names are kept in one block of memory and found by binary search.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_CHECKPOINTINDEX_H
#define K3_FRONTEND_CHECKPOINTINDEX_H

#include "frontend/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace k3::frontend {

class CheckpointIndex {
public:
  struct Entry {
    std::string_view name; ///< into storage of the index
    uint32_t shard;        ///< position in shards()
  };

  CheckpointIndex(CheckpointIndex &&) = default;
  CheckpointIndex &operator=(CheckpointIndex &&) = default;
  CheckpointIndex(const CheckpointIndex &) = delete;
  CheckpointIndex &operator=(const CheckpointIndex &) = delete;

  /// Sorted by name, none twice.
  const std::vector<Entry> &entries() const { return table; }
  /// Plain file names, in the order of their first use.
  const std::vector<std::string> &shards() const { return files; }
  /// metadata.total_size: bytes of all tensors, if stated.
  std::optional<uint64_t> totalSize() const { return statedSize; }
  /// The entry of that name, or nullptr.
  const Entry *find(std::string_view name) const;

  /// Parses the text of an index. Refused: a name listed twice, a shard name
  /// that is not a plain "*.safetensors" file name (no directories).
  static Expected<CheckpointIndex> parse(std::string_view json,
                                         const std::string &fileName);
  /// The same for a file (at most 1 GiB).
  static Expected<CheckpointIndex> read(const std::string &path);

private:
  friend class IndexHandler;
  CheckpointIndex() = default;

  std::vector<char> names; ///< a vector keeps its storage when moved
  std::vector<Entry> table;
  std::vector<std::string> files;
  std::optional<uint64_t> statedSize;
};

} // namespace k3::frontend

#endif // K3_FRONTEND_CHECKPOINTINDEX_H
