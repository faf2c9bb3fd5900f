//===- Stage.cpp - the stages of the compiler -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Transforms/Stage.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::k3;
using llvm::StringLiteral;

namespace {
struct Entry {
  Stage stage;
  StringLiteral name, help;
};
} // namespace

static constexpr Entry entries[] = {
    {Stage::Import, "import", "config.json becomes model IR, one function per layer kind and phase"},
    {Stage::Model, "model", "simplify the model IR"},
    {Stage::Structured, "structured", "model ops become structured ops on tensors, states become pools"},
    {Stage::Fuse, "fuse", "fold norms, epilogues and residual adds into their producers, order projections"},
    {Stage::Chunk, "chunk", "choose how KDA runs: chunks for prefill, the recurrent step for decode"},
    {Stage::Dispatch, "dispatch", "outline one kernel per structured op; layer functions become calls"},
    {Stage::Configure, "configure", "give every kernel tile sizes and a strategy"},
    {Stage::Kernels, "kernels", "kernels become LLVM dialect functions with the kernel ABI"},
    {Stage::Binaries, "binaries", "kernels become one ELF per target"},
    {Stage::Plan, "plan", "layer functions become programs with an arena"},
    {Stage::Artifact, "artifact", "write the .k3a file"},
};

llvm::ArrayRef<Stage> mlir::k3::getAllStages() {
  static constexpr Stage all[] = {Stage::Import,    Stage::Model,   Stage::Structured, Stage::Fuse,
                                  Stage::Chunk,     Stage::Dispatch, Stage::Configure, Stage::Kernels,
                                  Stage::Binaries,  Stage::Plan,    Stage::Artifact};
  static_assert(std::size(all) == std::size(entries));
  return all;
}

llvm::StringRef mlir::k3::getStageName(Stage stage) { return entries[static_cast<unsigned>(stage)].name; }

llvm::StringRef mlir::k3::getStageHelp(Stage stage) { return entries[static_cast<unsigned>(stage)].help; }

std::optional<Stage> mlir::k3::parseStage(llvm::StringRef name) {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return entry.stage;
  return std::nullopt;
}
