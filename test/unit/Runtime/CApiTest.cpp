//===- CApiTest.cpp - runs c_api_test.c ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/ToyModel.h"

#include <gtest/gtest.h>

extern "C" int runCApiTest(const char *path, char *failure, size_t size);

namespace {

TEST(CApi, FromC11) {
  toy::Folder folder;
  std::string model = toy::writeModel(folder);
  char failure[512] = "";
  EXPECT_EQ(runCApiTest(model.c_str(), failure, sizeof(failure)), 0) << failure;
}

} // namespace
