//===- Passes.h - GPU code generation passes -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_CODEGEN_GPU_PASSES_H
#define K3_CODEGEN_GPU_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::k3 {

#define GEN_PASS_DECL
#include "lib/Codegen/GPU/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Codegen/GPU/Passes.h.inc"

} // namespace mlir::k3

#endif // K3_CODEGEN_GPU_PASSES_H
