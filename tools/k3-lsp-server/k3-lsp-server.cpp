//===- k3-lsp-server.cpp - language server for editors that open k3 IR -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Support/Registration.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"

static llvm::cl::extrahelp usage(R"(
A language server for .mlir files with k3 ops: diagnostics, types, definitions. Editors start it and talk to it over
standard input and output; give them its path as their MLIR server (in Visual Studio Code: mlir.server_path).
)");

int main(int argc, char **argv) {
  mlir::k3::setVersionPrinter("k3-lsp-server");
  mlir::DialectRegistry registry;
  mlir::k3::registerAllK3Dialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
