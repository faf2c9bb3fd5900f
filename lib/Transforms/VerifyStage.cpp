//===- VerifyStage.cpp - check the contract of a stage -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Passes.h"
#include "lib/Transforms/Program/Dispatches.h"
#include "lib/Transforms/Program/ProgramContracts.h"
#include "lib/Transforms/StageContracts.h"

namespace mlir::k3 {
#define GEN_PASS_DEF_VERIFYSTAGE
#include "lib/Transforms/Passes.h.inc"
} // namespace mlir::k3

using namespace mlir;
using namespace mlir::k3;

namespace {
struct VerifyStagePass : k3::impl::VerifyStageBase<VerifyStagePass> {
  using VerifyStageBase::VerifyStageBase;
  void runOnOperation() override;
  LogicalResult verify(Stage stage);
};
} // namespace

LogicalResult VerifyStagePass::verify(Stage stage) {
  ModuleOp module = getOperation();
  switch (stage) {
  case Stage::Import:
  case Stage::Model:
    return success(succeeded(verifyModelTables(module)) && succeeded(verifyModelFunctions(module, stage)) &&
                   succeeded(verifyModelLevel(module, stage)));
  case Stage::Structured:
  case Stage::Fuse:
  case Stage::Chunk:
    return success(succeeded(verifyModelTables(module)) && succeeded(verifyModelFunctions(module, stage)) &&
                   succeeded(verifyStructuredLevel(module, stage)));
  case Stage::Dispatch:
    return verifyDispatches(module);
  case Stage::Configure:
    return verifyConfigured(module);
  case Stage::Kernels:
    return verifyLowered(module);
  case Stage::Binaries:
    return verifyBinaries(module);
  case Stage::Plan:
  case Stage::Artifact:
    return verifyPlanned(module);
  }
  llvm_unreachable("unknown stage");
}

void VerifyStagePass::runOnOperation() {
  std::optional<Stage> parsed = parseStage(stage);
  if (!parsed) {
    InFlightDiagnostic diagnostic = getOperation().emitOpError() << "expected a stage (";
    llvm::interleave(
        getAllStages(), [&](Stage known) { diagnostic << getStageName(known); }, [&] { diagnostic << ", "; });
    diagnostic << "), got '" << stage.getValue() << "'";
    return signalPassFailure();
  }
  if (failed(verify(*parsed)))
    signalPassFailure();
}
