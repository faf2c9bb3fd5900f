//===- EmitLLVM.h - kernels as LLVM IR text -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3COMPILE_EMITLLVM_H
#define K3_TOOLS_K3COMPILE_EMITLLVM_H

#include "frontend/Status.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace k3compile {

/// All kernels of a module of the stage kernels.
::k3::frontend::Expected<std::string> printLLVM(mlir::ModuleOp module);

} // namespace k3compile

#endif // K3_TOOLS_K3COMPILE_EMITLLVM_H
