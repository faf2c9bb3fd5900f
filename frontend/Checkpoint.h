//===- Checkpoint.h - a model directory, every tensor accounted for -------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Config, index and shard headers of one model directory, checked against each
// other: what the config asks for, what the index lists and what the shards
// hold must agree. No tensor data is read.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_CHECKPOINT_H
#define K3_FRONTEND_CHECKPOINT_H

#include "frontend/TensorPlan.h"

#include <array>

namespace k3::frontend {

/// Disagreements in a checkpoint, grouped by kind: the first five of each kind
/// and how many there are.
class ProblemList {
public:
  enum Kind : uint8_t {
    MissingShard,
    BadShard,
    IndexDisagrees,
    MissingTensor,
    UnexpectedTensor,
    WrongShape,
    WrongDtype,
    MixedForms,
    BadValue,
    BadTokenizer,
  };
  static constexpr size_t numKinds = BadTokenizer + 1;
  static constexpr size_t kept = 5;

  struct Group {
    std::vector<std::string> first; ///< at most `kept`, one line each
    uint64_t count = 0;
  };

  void add(Kind kind, std::string text);
  /// The same with text() called only if it is kept: there may be millions.
  template <typename MakeText> void addLazily(Kind kind, MakeText text) {
    ++groups[kind].count;
    if (groups[kind].first.size() < kept)
      groups[kind].first.push_back(text());
  }
  bool empty() const;
  const Group &group(Kind kind) const { return groups[kind]; }
  /// "missing tensor", for messages; also the kind's name in JSON.
  static const char *title(Kind kind);
  /// Everything in one line, the gravest kind first and in most detail.
  std::string oneLine() const;

private:
  std::array<Group, numKinds> groups;
};

struct CheckpointFile {
  std::string name; ///< plain file name
  std::string path; ///< with the model's directory
  uint64_t size = 0;
  bool present = false;
};

struct CheckpointTensor {
  std::string name;
  TensorRef ref;
  uint32_t file = 0;   ///< position in files()
  uint64_t offset = 0; ///< from the start of the file
  uint64_t bytes = 0;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape; ///< as stored
};

struct CheckpointOptions {
  /// Accept shards that the index names but the directory lacks (reported as a
  /// count); their tensors are then absent from tensors().
  bool allowMissingShards = false;
};

class Checkpoint {
public:
  /// Opens a directory with config.json and either
  /// model.safetensors.index.json and its shards, or one model.safetensors.
  /// With `problems`, disagreements are added there and the checkpoint is
  /// returned all the same; without, the first line of them is the error.
  /// A config or index that cannot be read is always an error.
  static Expected<Checkpoint> open(const std::string &directory,
                                   const CheckpointOptions &options = {},
                                   ProblemList *problems = nullptr);

  const ModelConfig &config() const { return modelConfig; }
  const TensorPlan &plan() const { return tensorPlan; }
  const std::vector<CheckpointFile> &files() const { return shardFiles; }
  /// Text tensors of the shards that are present, sorted by name.
  const std::vector<CheckpointTensor> &tensors() const { return table; }
  const CheckpointTensor *find(std::string_view name) const;

  /// How the template at that position of plan().templates() is stored in every
  /// layer, or nullptr if no present shard holds it (A_log left out, say).
  const TensorForm *form(uint32_t templateIndex) const;

  /// Tensors listed, vision included.
  uint64_t listedTensors() const { return numListed; }
  /// Vision tensors, which are skipped.
  uint64_t visionTensors() const { return numVision; }
  uint64_t missingShards() const;
  /// Bytes of the tensors in tensors().
  uint64_t weightBytes() const;
  /// metadata.total_size of the index.
  std::optional<uint64_t> totalSize() const { return statedSize; }
  /// Harmless oddities, one line each.
  const std::vector<std::string> &notes() const { return remarks; }

  /// Reads the small tensors (norms, convolutions, biases, A_log) and refuses
  /// NaN and infinities. A_log entries past the heads that are not zero become
  /// a note.
  Status checkSmallValues(std::vector<std::string> &notes) const;

private:
  friend class CheckpointReader;
  explicit Checkpoint(ModelConfig config)
      : modelConfig(std::move(config)), tensorPlan(modelConfig) {}

  ModelConfig modelConfig;
  TensorPlan tensorPlan;
  std::vector<CheckpointFile> shardFiles;
  std::vector<CheckpointTensor> table;
  std::vector<int> forms; ///< per template: position in its forms, or -1
  std::vector<std::string> remarks;
  std::optional<uint64_t> statedSize;
  uint64_t numListed = 0, numVision = 0;
};

} // namespace k3::frontend

#endif // K3_FRONTEND_CHECKPOINT_H
