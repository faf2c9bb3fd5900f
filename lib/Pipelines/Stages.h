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
  Option<int64_t> chunkRows{*this, "chunk-rows",
                            llvm::cl::desc("rows of a KDA chunk: 16, 32 or 64; 0 = the target's choice"),
                            llvm::cl::init(0)};
  Option<bool> bf16Products{*this, "bf16-products", llvm::cl::desc("round the inputs of prefill's products to bf16"),
                            llvm::cl::init(false)};
  Option<bool> bf16Decode{*this, "bf16-decode", llvm::cl::desc("with bf16-products: in decode as well"),
                          llvm::cl::init(false)};
  Option<bool> exactDecode{*this, "exact-decode",
                           llvm::cl::desc("decode takes any rows and gives bits that do not depend on what shares a step"),
                           llvm::cl::init(false)};
  Option<bool> forceGeneric{*this, "force-generic", llvm::cl::desc("use no kernel emitter, decompose every op"),
                            llvm::cl::init(false)};
  Option<bool> gpu{*this, "gpu", llvm::cl::desc("the module's target is a GPU"), llvm::cl::init(false)};
  Option<int64_t> maxTokens{*this, "max-tokens", llvm::cl::desc("rows of the largest prefill step"),
                            llvm::cl::init(512)};
  Option<int64_t> maxSequences{*this, "max-sequences", llvm::cl::desc("sequences of the largest step"),
                               llvm::cl::init(16)};
  Option<int64_t> maxLogitRows{*this, "max-logit-rows",
                               llvm::cl::desc("rows of logits of the largest step; 0 = as many as fit 64 MiB"),
                               llvm::cl::init(0)};
};

/// Adds the passes of one stage, its contract verifier last. The input is the output of the stage before.
void buildImportStage(OpPassManager &manager, const StageOptions &options);
void buildModelStage(OpPassManager &manager, const StageOptions &options);
void buildStructuredStage(OpPassManager &manager, const StageOptions &options);
void buildFuseStage(OpPassManager &manager, const StageOptions &options);
void buildChunkStage(OpPassManager &manager, const StageOptions &options);
void buildDispatchStage(OpPassManager &manager, const StageOptions &options);
/// From here on the module carries its target as `k3.target`.
void buildConfigureStage(OpPassManager &manager, const StageOptions &options);
/// Layer functions become programs, because what a program needs of a kernel is gone once it is in the LLVM dialect;
/// the kernels move to a module of their own.
void buildKernelsStage(OpPassManager &manager, const StageOptions &options);
void buildBinariesStage(OpPassManager &manager, const StageOptions &options);
void buildPlanStage(OpPassManager &manager, const StageOptions &options);

/// Null for artifact, which is not a pass pipeline.
using StageBuilder = void (*)(OpPassManager &, const StageOptions &);
StageBuilder getStageBuilder(Stage stage);

/// `--k3-<stage>-pipeline` for every stage that is one.
void registerStagePipelines();

} // namespace mlir::k3

#endif // K3_PIPELINES_STAGES_H
