//===- View.cpp - Checks shared by the reference functions ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/View.h"

#include <cstdio>
#include <cstdlib>

using namespace k3::ref;

void k3::ref::require(bool condition, const char *message) {
  if (condition)
    return;
  std::fprintf(stderr, "k3::ref: %s\n", message);
  std::abort();
}

void k3::ref::requireBoundaries(IntView boundaries, Index tokens) {
  require(boundaries.size() >= 1 && boundaries[0] == 0, "sequence boundaries must start at 0");
  for (Index n = 1; n < boundaries.size(); ++n)
    require(boundaries[n - 1] <= boundaries[n], "sequence boundaries must not fall");
  require(boundaries[boundaries.size() - 1] == tokens, "sequence boundaries must end at the token count");
}
