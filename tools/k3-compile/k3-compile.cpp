//===- k3-compile.cpp - from a model directory to an artifact -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/k3-compile/Commands.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>

using namespace k3compile;
using ::k3::frontend::Expected;
using ::k3::frontend::Status;

static int fail(const Status &status) {
  llvm::outs().flush();
  llvm::errs() << "k3-compile: " << status.message() << "\n";
  return 1;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A file that grows past a limit is an error of the write, not a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  std::string self = llvm::sys::fs::getMainExecutable(argv[0], reinterpret_cast<void *>(&main));
  Expected<Options> options = parseOptions(argc, argv);
  if (!options)
    return fail(options.status());
  if (options->check)
    return runCheck(*options);
  Status status = options->printPipeline ? printPipelines(*options)
                  : options->plan        ? runPlan(*options)
                                         : runCompile(*options, self);
  return status.ok() ? 0 : fail(status);
}
