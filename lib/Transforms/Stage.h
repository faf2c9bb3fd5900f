//===- Stage.h - the stages of the compiler -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_STAGE_H
#define K3_TRANSFORMS_STAGE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::k3 {

/// In order: each stage reads only the one before.
enum class Stage {
  Import,
  Model,
  Structured,
  Fuse,
  Chunk,
  Dispatch,
  Configure,
  Kernels,
  Binaries,
  Plan,
  Artifact,
};

llvm::ArrayRef<Stage> getAllStages();

/// The name in `--stop-after=` and `--k3-<stage>-pipeline`.
llvm::StringRef getStageName(Stage stage);

/// One line for --help.
llvm::StringRef getStageHelp(Stage stage);

std::optional<Stage> parseStage(llvm::StringRef name);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_STAGE_H
