//===- k3-print-import.cpp - prints the imported IR of a config.json -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
//   k3-print-import CONFIG.json [--bf16-states] [--without=TENSOR_KEY]
//
// Text for k3-opt, from the config alone. --without leaves out an optional tensor, as a checkpoint may.
//
//===----------------------------------------------------------------------===//
#include "frontend/import/ImportModel.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using ::k3::frontend::Dtype;
using ::k3::frontend::TensorForm;
using ::k3::frontend::TensorPlan;

int main(int argc, char **argv) {
  std::string path, without;
  mlir::k3::ImportOptions options;
  for (StringRef argument : ArrayRef<char *>(argv, argc).drop_front()) {
    if (argument == "--bf16-states")
      options.convState = options.kvCache = Dtype::BF16;
    else if (argument.consume_front("--without="))
      without = argument.str();
    else
      path = argument.str();
  }
  auto config = ::k3::frontend::readModelConfig(path);
  if (!config.ok()) {
    errs() << "error: " << config.message() << "\n";
    return 1;
  }
  TensorPlan plan(*config);
  if (!without.empty())
    options.storedForm = [&](uint32_t index) -> const TensorForm * {
      const auto &entry = plan.templates()[index];
      return entry.key == without ? nullptr : &entry.forms.front();
    };
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::k3::importModel(context, *config, options);
  if (!module)
    return 1;
  module->print(outs(), mlir::OpPrintingFlags().printNameLocAsPrefix());
  outs() << "\n";
  return 0;
}
