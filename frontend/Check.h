//===- Check.h - what is wrong with a model directory, if anything --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The library behind `k3-compile --check DIR [--json]`.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_CHECK_H
#define K3_FRONTEND_CHECK_H

#include "frontend/Checkpoint.h"
#include "frontend/MemoryPlan.h"

namespace k3::frontend {

struct CheckOptions {
  /// Count shards that are not there instead of refusing them.
  bool allowMissingShards = true;
  /// Also read the small tensors of the shards that are there.
  bool readSmallValues = false;
  /// Of the latent cache and conv window in the memory figures: 2 or 4.
  unsigned elementBytes = 2;
};

struct CheckReport {
  std::string directory;
  /// Set if config or index could not be read at all; then nothing else is.
  Status fatal;
  std::optional<Checkpoint> checkpoint;
  MemoryPlan memory;
  std::optional<uint64_t> numRanks, numAddedTokens; ///< if the files are there
  ProblemList problems;
  std::vector<std::string> notes;

  bool ok() const { return fatal.ok() && problems.empty(); }
  /// Lines for a terminal, each ended by a newline; the first says the verdict.
  std::string toText() const;
  /// One JSON object: ok, directory, and either error (a line) or model_type,
  /// num_hidden_layers, kda_layers, mla_layers, moe_layers, tensors_expected,
  /// tensors_listed, vision_tensors, shards, shards_missing, total_size (or
  /// null), the fields of MemoryPlan, problems [{kind, count, first}] and
  /// notes.
  std::string toJson() const;
};

/// Reads the config, the index and the headers of the shards that are there,
/// and the tokenizer files if any. Takes seconds for the full Kimi K3.
CheckReport checkModel(const std::string &directory,
                       const CheckOptions &options = {});

} // namespace k3::frontend

#endif // K3_FRONTEND_CHECK_H
