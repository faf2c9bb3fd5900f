//===- Options.h - command line of k3-compile -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3COMPILE_OPTIONS_H
#define K3_TOOLS_K3COMPILE_OPTIONS_H

#include "frontend/Status.h"
#include "lib/Codegen/Artifact/ArtifactBuilder.h"
#include "lib/Transforms/Stage.h"

#include <cstdint>
#include <optional>
#include <string>

namespace k3compile {

enum class Emit { Artifact, Exe, Mlir, Llvm, Obj, Elf, Ptx, Cubin };
enum class CacheDtype { Auto, F32, BF16 };

struct Options {
  /// Directory of the model; empty where only a config or IR is given.
  std::string model;
  /// config.json without a model directory.
  std::string config;
  /// Text of the stage before `startFrom`.
  std::string ir;
  std::string output; ///< empty: chosen from the model's name; "-": standard output
  std::string target = "host";
  bool targetGiven = false;
  std::optional<mlir::k3::WeightsMode> weights;
  CacheDtype cacheDtype = CacheDtype::Auto;
  int64_t maxTokens = 512, maxSequences = 16, chunkRows = 0;
  Emit emit = Emit::Artifact;
  /// The last stage that runs.
  mlir::k3::Stage stopAfter = mlir::k3::Stage::Artifact;
  mlir::k3::Stage startFrom = mlir::k3::Stage::Import;
  bool check = false, plan = false, printPipeline = false;
  bool json = false, time = false, forceGeneric = false;
  /// Inputs of prefill's products are rounded to bf16.
  bool bf16Products = false, bf16Decode = false;
  /// On a GPU inputs of products are sums of two bf16.
  bool twoTerms = false;
  /// Decode gives bits that do not depend on what shares a step.
  bool deterministic = false;
  std::string dumpDir;
};

/// Reads the command line, or prints help or version and exits. Exits with 1 and one line for an unknown option.
/// Contradictions are errors.
::k3::frontend::Expected<Options> parseOptions(int argc, char **argv);

/// "f32", "artifact", ...: for messages and JSON.
const char *getName(Emit emit);
const char *getName(mlir::k3::WeightsMode mode);

} // namespace k3compile

#endif // K3_TOOLS_K3COMPILE_OPTIONS_H
