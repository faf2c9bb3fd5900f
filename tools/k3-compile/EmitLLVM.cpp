//===- EmitLLVM.cpp - kernels as LLVM IR text -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/k3-compile/EmitLLVM.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using ::k3::frontend::Expected;
using ::k3::frontend::Status;

Expected<std::string> k3compile::printLLVM(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto kernels : module.getOps<mlir::ModuleOp>()) {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> translated = mlir::translateModuleToLLVMIR(kernels, context);
    if (!translated)
      return Status::error("the kernels cannot be translated to LLVM IR");
    translated->print(os, nullptr);
  }
  return text;
}
