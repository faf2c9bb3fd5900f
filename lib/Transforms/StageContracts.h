//===- StageContracts.h - what may exist after each stage -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_STAGECONTRACTS_H
#define K3_TRANSFORMS_STAGECONTRACTS_H

#include "lib/Transforms/Stage.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::k3 {

/// `k3.model`, `k3.layers`, a function per phase for the embedding, the head and every kind in the table.
LogicalResult verifyModelTables(ModuleOp module);

/// Phase and name of every function that has a phase, what each of its arguments says it is, and that it returns its
/// stream and states.
LogicalResult verifyModelFunctions(ModuleOp module, Stage stage);

/// The contracts of import and model; of structured, fuse and chunk.
LogicalResult verifyModelLevel(ModuleOp module, Stage stage);
LogicalResult verifyStructuredLevel(ModuleOp module, Stage stage);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_STAGECONTRACTS_H
