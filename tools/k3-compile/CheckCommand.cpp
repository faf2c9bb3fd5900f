//===- CheckCommand.cpp - k3-compile --check -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Check.h"
#include "tools/k3-compile/Commands.h"
#include "llvm/Support/raw_ostream.h"

using namespace ::k3::frontend;

int k3compile::runCheck(const Options &options) {
  CheckOptions checks;
  checks.elementBytes = options.cacheDtype == CacheDtype::F32 ? 4 : 2;
  CheckReport report = checkModel(options.model, checks);
  if (options.json)
    llvm::outs() << report.toJson() << "\n";
  else if (report.fatal.ok())
    llvm::outs() << report.toText();
  else
    llvm::errs() << "k3-compile: " << report.fatal.message() << "\n";
  return report.ok() ? 0 : 1;
}
