//===- OnCuda.cpp - lets the tests of engines run on a GPU ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// With K3_TOY_CUBIN, the path of toy-kernels.cubin, a real GPU is used, otherwise
// the fake driver. K3_TOY_KERNELS: where toy-kernels.so has been moved to.
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/FakeCuda/FakeCuda.h"
#include "test/unit/Runtime/TestEngine.h"

#include <cstdlib>
#include <memory>

using namespace toy;

namespace {

/// Misuse of the driver shows at the end of every test.
class NoProblems : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo &) override {
    EXPECT_EQ(fakecuda::driver().problems, std::vector<std::string>());
    EXPECT_EQ(fakecuda::driver().live.objects(), 0u);
    fakecuda::driver().problems.clear();
  }
};

/// Keeps the GPU's context, which takes long to make.
class KeepContext : public testing::Environment {
  void SetUp() override { engine = std::make_unique<TestEngine>(writeModel(folder)); }
  void TearDown() override { engine.reset(); }

  Folder folder;
  std::unique_ptr<TestEngine> engine;
};

[[maybe_unused]] const bool ready = [] {
  testDevice = "cuda:0";
  if (getenv("K3_TOY_CUBIN")) {
    testing::AddGlobalTestEnvironment(new KeepContext);
  } else {
    fakecuda::load();
    testing::UnitTest::GetInstance()->listeners().Append(new NoProblems);
  }
  return true;
}();

} // namespace
