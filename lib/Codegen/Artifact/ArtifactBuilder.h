//===- ArtifactBuilder.h - programs, code and weights into a .k3a file -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_ARTIFACT_ARTIFACTBUILDER_H
#define K3_CODEGEN_ARTIFACT_ARTIFACTBUILDER_H

#include "frontend/Checkpoint.h"
#include "frontend/Status.h"
#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::k3 {

/// Where the weights are.
enum class WeightsMode {
  None,      ///< nowhere: the artifact can be inspected, not run
  Embed,     ///< in the artifact
  Pack,      ///< in one file beside it, name.k3w
  Reference, ///< in the checkpoint's own files
};

/// Weights of less than this are embedded if nothing else is asked for.
inline constexpr uint64_t kEmbedLimit = uint64_t(4) << 30;

/// What an artifact records besides the programs.
struct ArtifactModel {
  /// Both must live as long.
  ArtifactModel(const ::k3::frontend::ModelConfig &config, const ::k3::frontend::TensorPlan &plan)
      : config(config), plan(plan) {}

  const ::k3::frontend::ModelConfig &config;
  const ::k3::frontend::TensorPlan &plan;
  std::string name;
  std::string configText;                                 ///< of config.json
  const ::k3::frontend::Checkpoint *checkpoint = nullptr; ///< null: WeightsMode::None
  std::vector<int64_t> eosTokenIds;
  std::vector<uint8_t> tokenizer; ///< empty: none
  std::string compilerVersion;
};

struct ArtifactOptions {
  std::string path;
  std::optional<WeightsMode> weights; ///< none given: by kEmbedLimit
  /// Not empty: the result is this program with the artifact behind it, executable.
  std::string runtimeProgram;
};

struct ArtifactSummary {
  WeightsMode weights = WeightsMode::None;
  uint64_t bytes = 0;      ///< of the file at `path`
  std::string weightsPath; ///< packed: the other file
  uint64_t weightBytes = 0, codeBytes = 0, indexBytes = 0;
  uint64_t prefillArenaBytes = 0, decodeArenaBytes = 0; ///< the largest of any target
  size_t numKernels = 0;
};

/// Writes the modules of all targets (stage plan), which share states and weights. The file appears whole or not at all. Before it gets its name it is opened the way the
/// runtime opens it, and refused if the runtime would refuse it.
::k3::frontend::Expected<ArtifactSummary> writeArtifact(ArrayRef<ModuleOp> modules, const ArtifactModel &model,
                                                        const ArtifactOptions &options);

} // namespace mlir::k3

#endif // K3_CODEGEN_ARTIFACT_ARTIFACTBUILDER_H
