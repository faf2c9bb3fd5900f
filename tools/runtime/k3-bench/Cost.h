//===- Cost.h - what a step must read and compute ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_COST_H
#define K3_TOOLS_K3BENCH_COST_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/base/DeviceName.h"

namespace k3bench {

/// The least that some work takes. Numbers can be fractions: how many experts a step reads is an expected value.
struct Cost {
  double weightBytes = 0; ///< each weight once, of experts those that are chosen
  double stateBytes = 0;  ///< states, windows and cache, read and written
  double flops = 0;       ///< of products with weight matrices alone: 2 per weight and row

  double bytes() const { return weightBytes + stateBytes; }
  Cost &operator+=(const Cost &other);
};

/// The size of a step, over all its sequences.
struct StepSize {
  uint64_t sequences = 1;
  uint64_t rows = 1;    ///< tokens
  uint64_t context = 0; ///< tokens that every sequence had before
  uint64_t logitRows = 1;
};

/// Counts from the index of an artifact that passed checkArtifact, which outlives it.
class CostModel {
public:
  /// Error: K3RT_BAD_ARTIFACT when there are experts, but config.json in the artifact does not say how many a token
  /// chooses.
  k3rt::Status init(const k3::artifact::Artifact &index);

  /// Dispatch of the prologue: it picks rows of the weights it binds.
  Cost prologueDispatch(const k3::artifact::Dispatch &dispatch, const StepSize &size) const;
  Cost layerDispatch(const k3::artifact::Dispatch &dispatch, uint32_t layer, const StepSize &size) const;
  /// Dispatch of the epilogue: it works on the rows whose logits are wanted.
  Cost epilogueDispatch(const k3::artifact::Dispatch &dispatch, const StepSize &size) const;

  /// A whole layer, where a weight or state that several dispatches bind counts once.
  Cost layer(const k3::artifact::Program &program, uint32_t layer, const StepSize &size) const;
  /// All layers and the epilogue; the embedding table is left out.
  Cost step(const k3::artifact::Program &program, const StepSize &size) const;

private:
  class Uses;

  /// `rows` go through the weights.
  Cost costOf(const Uses &uses, uint64_t rows, const StepSize &size) const;
  void addWeight(const k3::artifact::Weight &weight, uint64_t rows, Cost &cost) const;
  Cost epilogue(const k3::artifact::Program &program, const StepSize &size) const;

  const k3::artifact::Artifact *index = nullptr;
  uint64_t expertsPerToken = 0;
};

/// The program that runs decode steps: the prefill program where there is no other.
const k3::artifact::Program &programFor(const k3::artifact::Artifact &index, k3::artifact::Phase phase,
                                       const k3rt::DeviceName &device);

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_COST_H
