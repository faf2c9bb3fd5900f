//===- Targets.h - the machines a model is compiled for -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3COMPILE_TARGETS_H
#define K3_TOOLS_K3COMPILE_TARGETS_H

#include "dialects/k3/IR/K3Ops.h"
#include "frontend/Status.h"
#include "lib/Transforms/Stage.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace k3compile {

/// From this stage on every target has a module of its own.
inline constexpr mlir::k3::Stage firstTargetStage = mlir::k3::Stage::Chunk;

/// The IR of a compilation: one module that all targets share, and from firstTargetStage on one per target. As text,
/// several modules are one module around them, which lists the targets as `k3.targets`.
class TargetModules {
public:
  /// Takes IR as it was imported or read.
  ::k3::frontend::Status set(mlir::OwningOpRef<mlir::ModuleOp> module);
  /// The machines to compile for: "host", "nvidia-sm90a", or one CPU and one GPU ("host,nvidia-sm90a").
  ::k3::frontend::Status setTargets(const std::string &names);
  /// bf16 terms of an f32 input of a product on a GPU (GpuTarget::xTerms).
  void setXTerms(int64_t terms);
  /// Whether the IR says what it is for.
  bool hasTargets() const { return !targets.empty(); }
  /// Before a stage runs: gives every target its module if it is time.
  void prepare(mlir::k3::Stage stage);

  /// The modules that the next stage runs on: the shared one, or that of the CPU, then that of the GPU.
  llvm::ArrayRef<mlir::ModuleOp> modules() const { return current; }
  /// "znver4", "sm_90a", in the order of `modules`.
  std::vector<std::string> names() const;
  bool isForGpu(mlir::ModuleOp module) const;

  /// Everything as one module, for printing; the modules are part of it from then on.
  mlir::ModuleOp bundle();

private:
  void update();

  mlir::OwningOpRef<mlir::ModuleOp> shared;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> ofTargets;
  std::vector<mlir::k3::TargetAttr> targets;
  std::vector<mlir::ModuleOp> current;
};

/// An error that says what is wrong with `names`.
::k3::frontend::Expected<std::vector<mlir::k3::TargetAttr>> parseTargets(mlir::MLIRContext &context,
                                                                         const std::string &names);

} // namespace k3compile

#endif // K3_TOOLS_K3COMPILE_TARGETS_H
