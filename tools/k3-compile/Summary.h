//===- Summary.h - what a compilation did, for the user -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3COMPILE_SUMMARY_H
#define K3_TOOLS_K3COMPILE_SUMMARY_H

#include "tools/k3-compile/Options.h"

#include <vector>

namespace k3compile {

struct Summary {
  std::string output;
  std::vector<std::string> targets; ///< names of CPUs and chips
  std::optional<mlir::k3::ArtifactSummary> artifact;
  std::vector<std::pair<mlir::k3::Stage, double>> seconds; ///< of each stage that ran
};

/// The line or JSON at the end on standard output, times on standard error.
void printSummary(const Options &options, const Summary &summary);

} // namespace k3compile

#endif // K3_TOOLS_K3COMPILE_SUMMARY_H
