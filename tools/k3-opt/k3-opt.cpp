//===- k3-opt.cpp - optimizer driver: all upstream passes and ours -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/Passes.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Codegen/Common/Passes.h"
#include "lib/Codegen/GPU/GPUPipeline.h"
#include "lib/Pipelines/Stages.h"
#include "lib/Support/Registration.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"

static llvm::cl::extrahelp examples(R"(
Runs passes and stages on a file of IR and prints the result. Those of k3c begin with k3-.

  k3-compile MODEL_DIR --stop-after=import -o model.mlir      a file to begin with
  k3-opt model.mlir --k3-model-pipeline --k3-structured-pipeline
                                                              stages, one after the other
  k3-opt structured.mlir --k3-fuse-moe                        one pass
  k3-opt structured.mlir --k3-fuse-pipeline --mlir-print-ir-after-change
                                                              what every pass of a stage changes
)");

int main(int argc, char **argv) {
  mlir::k3::setVersionPrinter("k3-opt");
  mlir::DialectRegistry registry;
  mlir::k3::registerAllK3Dialects(registry);
  mlir::k3::registerAllK3Passes();
  mlir::k3::registerK3CodegenCommonPasses();
  mlir::k3::registerCPUCodegen();
  mlir::k3::registerGPUCodegen();
  mlir::k3::registerK3ProgramPasses();
  mlir::k3::registerK3ArtifactPasses();
  mlir::k3::registerStagePipelines();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "k3c optimizer driver\n", registry));
}
