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
/// They depend on the seed, the weight's name, type, width and expert alone. Tensors whose values are made alike are cut
/// out of one block of random values, piece by piece, each from a place of its own: a GPU need not be sent more than the
/// blocks.
class RandomWeights {
public:
  RandomWeights(const k3::artifact::Artifact &index, uint64_t seed);

  /// Tensors in the order of WeightTensors.h.
  size_t count() const { return tensors.size(); }
  /// Bytes of a tensor.
  uint64_t size(size_t tensor) const { return tensors[tensor].bytes; }
  /// Writes bytes [begin, begin + bytes) of a tensor; begin is a multiple of 8.
  void write(size_t tensor, uint64_t begin, uint64_t bytes, char *out) const;

  static constexpr uint64_t blockBytes = 32u << 20, pieceBytes = 8u << 20;
  size_t numBlocks() const { return recipes.size(); }
  /// Writes bytes [begin, begin + bytes) of a block; begin is a multiple of 8.
  void writeBlock(size_t block, uint64_t begin, uint64_t bytes, char *out) const;
  /// The block that a tensor is cut out of.
  size_t blockOf(size_t tensor) const { return tensors[tensor].recipe; }
  /// Where in its block the tensor's bytes from piece * pieceBytes on begin; a multiple of 64, with a whole piece behind
  /// it.
  uint64_t pieceOffset(size_t tensor, uint64_t piece) const;

private:
  enum class Fill : uint8_t { zeros, ones, uniform, codes, scales };
  /// How the elements of a weight are made. What its way of filling does not use is left as it is here.
  struct Recipe {
    Fill fill = Fill::zeros;
    k3::artifact::DType dtype = k3::artifact::DType::F32;
    float limit = 0;   ///< of uniform
    uint8_t scale = 0; ///< the smaller of the two scales
    uint64_t key = 0;  ///< of the random values
  };
  /// One weight, or one expert of a group.
  struct Tensor {
    size_t recipe = 0;
    uint64_t key = 0, bytes = 0;
  };

  static Recipe recipeOf(const k3::artifact::Weight &weight);
  size_t addRecipe(Recipe recipe, uint64_t seed);

  std::vector<Recipe> recipes;
  std::vector<Tensor> tensors;
};

/// Fills `memory` with them. `tensors`: where each begins, at a multiple of 64 bytes. Error: K3RT_OUT_OF_MEMORY.
Status makeRandomWeights(const k3::artifact::Artifact &index, uint64_t seed, ThreadPool &threads,
                         const Progress &progress, Allocation &memory, std::vector<const char *> &tensors);

} // namespace k3rt

#endif // K3RT_ARTIFACT_RANDOMWEIGHTS_H
