//===- Stages.h - the one place that orders passes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_PIPELINES_STAGES_H
#define K3_PIPELINES_STAGES_H

#include "lib/Transforms/Stage.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::k3 {

/// What the passes of the stages need to know; also the options of the registered pipelines.
struct StageOptions : PassPipelineOptions<StageOptions> {
  Option<int64_t> chunkRows{*this, "chunk-rows", llvm::cl::desc("rows of a KDA chunk: 16, 32 or 64"),
                            llvm::cl::init(16)};
};

/// Adds the passes of one stage, its contract verifier last. The input is the output of the stage before.
void buildImportStage(OpPassManager &manager, const StageOptions &options);
void buildModelStage(OpPassManager &manager, const StageOptions &options);
void buildStructuredStage(OpPassManager &manager, const StageOptions &options);
void buildFuseStage(OpPassManager &manager, const StageOptions &options);
void buildChunkStage(OpPassManager &manager, const StageOptions &options);

/// Null for the stages that are not pass pipelines.
using StageBuilder = void (*)(OpPassManager &, const StageOptions &);
StageBuilder getStageBuilder(Stage stage);

/// `--k3-<stage>-pipeline` for every stage that is one.
void registerStagePipelines();

} // namespace mlir::k3

#endif // K3_PIPELINES_STAGES_H
