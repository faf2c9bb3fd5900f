//===- Stages.cpp - the one place that orders passes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Pipelines/Stages.h"
#include "lib/Codegen/Artifact/Passes.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Codegen/GPU/LatentAttention.h"
#include "lib/Transforms/Passes.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::k3;

static void addVerifier(OpPassManager &manager, Stage stage) {
  VerifyStageOptions options;
  options.stage = getStageName(stage).str();
  manager.addPass(createVerifyStage(options));
}

void k3::buildImportStage(OpPassManager &manager, const StageOptions &) { addVerifier(manager, Stage::Import); }

void k3::buildModelStage(OpPassManager &manager, const StageOptions &) {
  // Not CSE, here or later: it joins destinations of the same shape, and each op needs its own.
  manager.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  addVerifier(manager, Stage::Model);
}

void k3::buildStructuredStage(OpPassManager &manager, const StageOptions &) {
  manager.addNestedPass<func::FuncOp>(createExpandModelOps());
  manager.addNestedPass<func::FuncOp>(createMaterializeStates());
  manager.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  addVerifier(manager, Stage::Structured);
}

void k3::buildFuseStage(OpPassManager &manager, const StageOptions &) {
  manager.addNestedPass<func::FuncOp>(createFuseAttnRes());
  manager.addNestedPass<func::FuncOp>(createFuseMoe());
  // No canonicalizer from here to dispatch: see the pass.
  manager.addNestedPass<func::FuncOp>(createFuseResidual());
  manager.addNestedPass<func::FuncOp>(createFuseProjections());
  addVerifier(manager, Stage::Fuse);
}

void k3::buildChunkStage(OpPassManager &manager, const StageOptions &options) {
  ChunkKdaOptions chunk;
  // A GPU's matrix units take bf16 and want long chunks; f32 is for accuracy there.
  // Decomposed, 64 rows would need more shared memory than a block has.
  chunk.matrixUnits = options.gpu && options.bf16Products && !options.forceGeneric &&
                      (options.chunkRows == 0 || options.chunkRows == 64);
  chunk.fuseGate = options.gpu;
  chunk.rows = options.chunkRows != 0 ? int64_t(options.chunkRows) : 16;
  manager.addNestedPass<func::FuncOp>(createChunkKda(chunk));
  if (options.exactDecode && !options.gpu)
    manager.addNestedPass<func::FuncOp>(createFixOrder());
  manager.addNestedPass<func::FuncOp>(createLowerKdaDecode());
  if (options.gpu) {
    manager.addNestedPass<func::FuncOp>(createFuseKdaDecode());
    SplitMlaOptions split;
    split.blocks = GpuTarget().multiprocessors;
    split.heads = AttentionPlan::exactRows;
    split.tile = AttentionPlan::tileRows;
    manager.addNestedPass<func::FuncOp>(createSplitMla(split));
    manager.addNestedPass<func::FuncOp>(createAddSampling());
  }
  if (options.bf16Products)
    manager.addNestedPass<func::FuncOp>(createRoundInputs({options.bf16Decode}));
  if (options.bf16Products && options.gpu)
    manager.addNestedPass<func::FuncOp>(createNarrowActivations());
  if (options.gpu && !options.forceGeneric)
    manager.addNestedPass<func::FuncOp>(createFuseExperts());
  addVerifier(manager, Stage::Chunk);
}

void k3::buildDispatchStage(OpPassManager &manager, const StageOptions &options) {
  FormDispatchesOptions form;
  form.separatePhases = options.gpu;
  manager.addPass(createFormDispatches(form));
  manager.addPass(createDedupKernels());
  addVerifier(manager, Stage::Dispatch);
}

void k3::buildConfigureStage(OpPassManager &manager, const StageOptions &options) {
  if (options.gpu) {
    buildGpuConfigurePipeline(manager, options.forceGeneric);
    // Kernels of the two phases that came out equal.
    manager.addPass(createDedupKernels());
  } else {
    buildConfigurePipeline(manager, options.forceGeneric);
  }
  addVerifier(manager, Stage::Configure);
}

void k3::buildKernelsStage(OpPassManager &manager, const StageOptions &options) {
  LowerToExecOptions sizes;
  sizes.maxTokens = options.maxTokens;
  sizes.maxSequences = options.maxSequences;
  sizes.maxLogitRows = options.maxLogitRows;
  sizes.exact = options.exactDecode && !options.gpu;
  manager.addPass(createLowerToExec(sizes));
  OutlineExecutableOptions outline;
  outline.executable = options.gpu ? "gpu" : "cpu";
  manager.addPass(createOutlineExecutable(outline));
  if (options.gpu)
    buildGpuKernelsPipeline(manager.nest<ModuleOp>());
  else
    buildKernelsPipeline(manager.nest<ModuleOp>());
  addVerifier(manager, Stage::Kernels);
}

void k3::buildBinariesStage(OpPassManager &manager, const StageOptions &) {
  manager.addPass(createEmitBinaries());
  addVerifier(manager, Stage::Binaries);
}

void k3::buildPlanStage(OpPassManager &manager, const StageOptions &) {
  manager.addPass(createPlanBuffers());
  addVerifier(manager, Stage::Plan);
}

StageBuilder k3::getStageBuilder(Stage stage) {
  switch (stage) {
  case Stage::Import:
    return buildImportStage;
  case Stage::Model:
    return buildModelStage;
  case Stage::Structured:
    return buildStructuredStage;
  case Stage::Fuse:
    return buildFuseStage;
  case Stage::Chunk:
    return buildChunkStage;
  case Stage::Dispatch:
    return buildDispatchStage;
  case Stage::Configure:
    return buildConfigureStage;
  case Stage::Kernels:
    return buildKernelsStage;
  case Stage::Binaries:
    return buildBinariesStage;
  case Stage::Plan:
    return buildPlanStage;
  case Stage::Artifact:
    return nullptr;
  }
  llvm_unreachable("unknown stage");
}

void k3::registerStagePipelines() {
  for (Stage stage : getAllStages())
    if (StageBuilder build = getStageBuilder(stage))
      PassPipelineRegistration<StageOptions>(("k3-" + getStageName(stage) + "-pipeline").str(), getStageHelp(stage),
                                             build);
}
