//===- IndexBuilder.h - the artifact's index from programs -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_INDEXBUILDER_H
#define K3_CODEGEN_ARTIFACT_INDEXBUILDER_H

#include "lib/Codegen/Artifact/ArtifactBuilder.h"
#include "lib/Codegen/Artifact/WeightTable.h"
#include "runtime/schemas/k3_artifact_generated.h"

namespace mlir::k3 {

struct BlobPlace {
  uint64_t offset = 0, length = 0, hash = 0;
};

/// Where everything outside the index is.
struct ArtifactLayout {
  std::vector<BlobPlace> executables; ///< of the modules' executables, in order
  BlobPlace tokenizer;                ///< of length 0: none
  WeightsMode weights = WeightsMode::None;
  /// Of each weight if they are embedded or packed.
  std::vector<uint64_t> weightOffsets, weightHashes;
  /// Packed: the one file; referenced: the checkpoint's.
  std::vector<std::pair<std::string, uint64_t>> files;
};

/// `modules` are of one model, one per target. The size of the index does not depend on numbers in `layout`. Errors: what the schema cannot hold.
::k3::frontend::Expected<flatbuffers::DetachedBuffer>
buildIndex(ArrayRef<ModuleOp> modules, const ArtifactModel &model, const WeightTable &table, const ArtifactLayout &layout);

} // namespace mlir::k3

#endif // K3_CODEGEN_ARTIFACT_INDEXBUILDER_H
