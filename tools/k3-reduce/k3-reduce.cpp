//===- k3-reduce.cpp - reduces IR while a script finds it interesting -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Interfaces.h"
#include "lib/Codegen/Artifact/Passes.h"
#include "lib/Codegen/CPU/CPUPipeline.h"
#include "lib/Pipelines/Stages.h"
#include "lib/Support/Registration.h"
#include "lib/Transforms/Program/Passes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tools/k3-reduce/ReduceOps.h"
#include "llvm/Support/CommandLine.h"

static llvm::cl::extrahelp examples(R"(
Makes a file of IR smaller as long as a script finds it interesting, which it says with exit code 1.

  k3-reduce big.mlir --k3-reduce-ops=test=./test.sh -o small.mlir
  where test.sh is, for instance:   k3-opt "$1" --k3-fuse-pipeline 2>&1 | grep -q "expected" && exit 1 || exit 0
)");

int main(int argc, char **argv) {
  mlir::k3::setVersionPrinter("k3-reduce");
  mlir::DialectRegistry registry;
  mlir::k3::registerAllK3Dialects(registry);
  mlir::k3::registerReductionPatterns(registry);
  mlir::k3::registerAllK3Passes();
  mlir::k3::registerCPUCodegen();
  mlir::k3::registerK3ProgramPasses();
  mlir::k3::registerK3ArtifactPasses();
  mlir::k3::registerStagePipelines();
  mlir::k3::registerReduceOpsPass();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
