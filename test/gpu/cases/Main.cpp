//===- Main.cpp - k3-gpu-cases --------------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/KernelHarness.h"

#include <cstdio>

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!k3::test::exporting() && !::testing::GTEST_FLAG(list_tests)) {
    std::fprintf(stderr, "k3-gpu-cases: K3_EXPORT_CASES must name the file to be written\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}
