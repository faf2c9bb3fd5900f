//===- WeightStore.h - where the weights are in memory -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_WEIGHTSTORE_H
#define K3RT_ARTIFACT_WEIGHTSTORE_H

#include "runtime/src/artifact/Artifact.h"

#include <memory>
#include <vector>

namespace k3rt {

/// Weights stay where they are stored, embedded in the artifact or in files
/// beside it, and are only mapped.
class WeightStore {
public:
  /// `directory`: where the weight files are; empty = as recorded (absolute, or
  /// relative to the artifact's folder). Hashes of embedded weights are checked
  /// when `verifyAll`, or when they are small enough not to be felt. Errors:
  /// K3RT_IO_ERROR names a missing or short file, K3RT_BAD_ARTIFACT a damaged
  /// weight.
  Status open(const Artifact &artifact, const std::string &directory,
              bool verifyAll);

  /// What kernels are given for a weight: its address, or for an expert group
  /// the address of a table with one address per expert.
  const void *binding(uint32_t weight) const { return bindings[weight]; }

private:
  Status openFiles(const Artifact &artifact, const std::string &directory);

  std::vector<MappedFile> files;
  std::vector<const void *> bindings;
  std::vector<std::unique_ptr<const void *[]>> expertTables;
};

/// Compares the recorded hashes of all embedded weights. Error:
/// K3RT_BAD_ARTIFACT, naming the weight.
Status verifyEmbeddedWeights(const Artifact &artifact);

} // namespace k3rt

#endif // K3RT_ARTIFACT_WEIGHTSTORE_H
