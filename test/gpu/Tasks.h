//===- Tasks.h - what of case files is played ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/CaseFile.h"

namespace k3::gpu {

/// One variant of one case of one of several files.
struct Task {
  std::size_t set, number, variant;
};

/// Of all `tasks` with the same op, strategy and element types one, in their order: for tools that slow kernels down by
/// thousands. It is the one whose arguments are larger than those of three quarters of the others, so that loops go round
/// more than once, and no more is computed than that takes.
std::vector<Task> chooseOneOfEach(const std::vector<CaseSet> &sets, const std::vector<Task> &tasks);

} // namespace k3::gpu
