//===- WeightWriter.h - weights from shards into one file -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_WEIGHTWRITER_H
#define K3_CODEGEN_ARTIFACT_WEIGHTWRITER_H

#include "lib/Codegen/Artifact/OutputFile.h"
#include "lib/Codegen/Artifact/WeightTable.h"

namespace mlir::k3 {

/// Offsets of the weights from `begin` on, each at a multiple of K3_WEIGHT_ALIGNMENT; experts of a group follow each
/// other.
struct WeightPlaces {
  std::vector<uint64_t> offsets;
  uint64_t end = 0;
};
WeightPlaces placeWeights(const WeightTable &table, uint64_t begin);

/// Reads every weight whose values can be bad: a scale of NaN, a NaN or an infinity is an error that names file, tensor
/// and position. Codes of MXFP4 are all good and are not read.
::k3::frontend::Status checkWeights(const WeightTable &table, const ::k3::frontend::Checkpoint &checkpoint);

/// Copies every weight to `base` + its offset, in pieces, and checks its values on the way as checkWeights does. Returns the
/// XXH3-64 of each weight.
::k3::frontend::Expected<std::vector<uint64_t>> copyWeights(const WeightTable &table,
                                                            const ::k3::frontend::Checkpoint &checkpoint,
                                                            const WeightPlaces &places, uint64_t base,
                                                            OutputFile &output);

} // namespace mlir::k3

#endif // K3_CODEGEN_ARTIFACT_WEIGHTWRITER_H
