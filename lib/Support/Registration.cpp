//===- Registration.cpp - everything the compiler tools register -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Support/Registration.h"
#include "dialects/k3/IR/K3Ops.h"
#include "dialects/k3/Interfaces/Interfaces.h"
#include "lib/Transforms/Passes.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"

void mlir::k3::registerAllK3Dialects(DialectRegistry &registry) {
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registerAllToLLVMIRTranslations(registry);
  registry.insert<K3Dialect>();
  registerK3InterfaceModels(registry);
}

void mlir::k3::registerAllK3Passes() {
  registerAllPasses();
  registerK3TransformsPasses();
}

void mlir::k3::setVersionPrinter(llvm::StringRef tool) {
  llvm::cl::SetVersionPrinter(
      [tool](raw_ostream &os) { os << tool << " " K3_VERSION " (LLVM " LLVM_VERSION_STRING ")\n"; });
}
