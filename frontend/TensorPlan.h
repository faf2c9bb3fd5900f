//===- TensorPlan.h - the tensors a checkpoint must hold ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// One table, derived from a ModelConfig, names every tensor of the text model:
// the checkpoint is accounted for against it and the importer names weights
// from it. A template stands for one tensor, or one per layer, or one per layer
// and expert. Kimi K3 has 48 templates.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_TENSORPLAN_H
#define K3_FRONTEND_TENSORPLAN_H

#include "frontend/ModelConfig.h"

#include <unordered_map>

namespace k3::frontend {

/// A way a tensor may be stored. Forms of one template hold the same values.
struct TensorForm {
  Dtype dtype;
  std::vector<int64_t> shape; ///< as a safetensors header states it

  uint64_t bytes() const;
};

struct TensorTemplate {
  /// Role inside its layer or the model, without prefix, layer and expert:
  /// "self_attn.q_proj.weight", "block_sparse_moe.experts.w1.weight_packed",
  /// "embed_tokens.weight".
  std::string key;
  /// "language_model.model.layers.{L}.self_attn.q_proj.weight"; {L} is the
  /// 0-based layer, {E} the expert.
  std::string nameTemplate;
  /// What it means: [out, in] of a linear map, [channels, taps] of a short
  /// convolution, [heads] of A_log. Packed MXFP4 counts weights, not bytes.
  std::vector<int64_t> shape;
  /// What is accepted; the first is what the family's released files hold.
  std::vector<TensorForm> forms;
  std::vector<int64_t> layers; ///< 0-based, ascending; empty: not per layer
  int64_t numExperts = 0;      ///< 0: not per expert
  /// May be absent as a whole (A_log of a bounded gate: exp(A_log) is then 1).
  bool optional = false;
  /// A norm gain, convolution, bias or A_log: small enough to check every
  /// value.
  bool isSmall = false;

  bool isPerLayer() const { return !layers.empty(); }
  bool isPerExpert() const { return numExperts > 0; }
  /// Tensors this stands for.
  uint64_t count() const;
  bool hasLayer(int64_t layer) const;
  /// The tensor's name; layer and expert are ignored where it has none.
  std::string name(int64_t layer = -1, int64_t expert = -1) const;
};

/// A tensor as an instance of a template.
struct TensorRef {
  uint32_t templateIndex = 0;
  int64_t layer = -1;  ///< -1: not per layer
  int64_t expert = -1; ///< -1: not per expert
};

class TensorPlan {
public:
  explicit TensorPlan(const ModelConfig &config);

  const std::vector<TensorTemplate> &templates() const & { return table; }
  const std::vector<TensorTemplate> &templates() && = delete; // would dangle

  /// The template of that role in that layer (-1 for model-level tensors), or
  /// nullptr if the layer has no such tensor. Two layer kinds may share a key
  /// with different shapes (self_attn.o_proj.weight of KDA and MLA).
  const TensorTemplate *find(std::string_view key, int64_t layer = -1) const;

  /// Which tensor that name is, or nullopt if the model has no such tensor.
  std::optional<TensorRef> match(std::string_view name) const;

  /// Whether the name belongs to the vision part, which is not compiled.
  static bool isVision(std::string_view name);

  /// Distinct tensors, optional ones included.
  uint64_t count() const;
  /// Bytes of all tensors in their first form; nullopt above 2^60.
  std::optional<uint64_t> bytes() const;

private:
  std::vector<TensorTemplate> table;
  /// From nameTemplate and from key to the templates that share it.
  std::unordered_map<std::string, std::vector<uint32_t>> byName, byKey;
};

} // namespace k3::frontend

#endif // K3_FRONTEND_TENSORPLAN_H
