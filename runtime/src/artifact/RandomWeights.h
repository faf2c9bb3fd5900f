//===- RandomWeights.h - weights made up for measuring -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_RANDOMWEIGHTS_H
#define K3RT_ARTIFACT_RANDOMWEIGHTS_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/base/Memory.h"
#include "runtime/src/base/Progress.h"
#include "runtime/src/base/ThreadPool.h"

#include <vector>

namespace k3rt {

/// Values for all weights of an index that passed checkArtifact, whether or not it has stored ones, which keep
/// activations in a natural range:
///   matrices           uniform in +-sqrt(3 / in_features), so that their variance is 1 / in_features
///   MXFP4              random codes, scales for the same variance (within a factor of 2)
///   norm gains         1
///   A_log, biases      uniform in +-0.1
/// They depend on the seed, the weight's name, expert and position alone.
class RandomWeights {
public:
  RandomWeights(const k3::artifact::Artifact &index, uint64_t seed);

  /// Tensors in the order of WeightTensors.h.
  size_t count() const { return tensors.size(); }
  /// Bytes of a tensor.
  uint64_t size(size_t tensor) const { return tensors[tensor].bytes; }
  /// Writes bytes [begin, begin + bytes) of a tensor; begin is a multiple of 8.
  void write(size_t tensor, uint64_t begin, uint64_t bytes, char *out) const;

private:
  enum class Fill : uint8_t { zeros, ones, uniform, codes, scales };
  /// How the elements of a weight are made.
  struct Recipe {
    Fill fill = Fill::zeros;
    k3::artifact::DType dtype = k3::artifact::DType::F32;
    float limit = 0;   ///< of uniform
    uint8_t scale = 0; ///< the smaller of the two scales
  };
  /// One weight, or one expert of a group.
  struct Tensor {
    Recipe recipe;
    uint64_t key = 0, bytes = 0;
  };

  static Recipe recipeOf(const k3::artifact::Weight &weight);

  std::vector<Tensor> tensors;
};

/// Fills `memory` with them. `tensors`: where each begins, at a multiple of 64 bytes. Error: K3RT_OUT_OF_MEMORY.
Status makeRandomWeights(const k3::artifact::Artifact &index, uint64_t seed, ThreadPool &threads,
                         const Progress &progress, Allocation &memory, std::vector<const char *> &tensors);

} // namespace k3rt

#endif // K3RT_ARTIFACT_RANDOMWEIGHTS_H
