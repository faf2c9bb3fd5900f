//===- ProgramContracts.h - what may exist from dispatch to plan -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One function per stage; each emits an error at the first op that breaks its contract. The contract of `dispatch` is
// verifyDispatches (Dispatches.h).
//
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PROGRAM_PROGRAMCONTRACTS_H
#define K3_TRANSFORMS_PROGRAM_PROGRAMCONTRACTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::k3 {

/// Also: every root has a `kernel_config` with one tile per loop.
LogicalResult verifyConfigured(ModuleOp module);

/// Programs, kernels and modules in the LLVM dialect that hold their code.
LogicalResult verifyLowered(ModuleOp module);

/// Programs, kernels and executables.
LogicalResult verifyBinaries(ModuleOp module);

/// Also: every program has a valid arena plan.
LogicalResult verifyPlanned(ModuleOp module);

} // namespace mlir::k3

#endif // K3_TRANSFORMS_PROGRAM_PROGRAMCONTRACTS_H
