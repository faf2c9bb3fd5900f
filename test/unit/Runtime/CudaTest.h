//===- CudaTest.h - tests with the fake CUDA driver ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_RUNTIME_CUDATEST_H
#define K3_TEST_RUNTIME_CUDATEST_H

#include "test/unit/Runtime/FakeCuda/FakeCuda.h"
#include "test/unit/Runtime/TestEngine.h"

namespace toy {

/// Every test begins with a driver as it should be, and ends with nothing left
/// in it and no misuse.
class CudaTest : public testing::Test {
protected:
  CudaTest() {
    fakecuda::load();
    fakecuda::reset();
  }
  ~CudaTest() override {
    EXPECT_EQ(fakecuda::driver().problems, std::vector<std::string>());
    EXPECT_EQ(fakecuda::driver().live.objects(), 0u);
  }

  static TestEngine::Change onGpu(const TestEngine::Change &more = {}) {
    return [more](k3rt_engine_options &options) {
      options.device = "cuda:0";
      if (more)
        more(options);
    };
  }
  std::string write(const Options &options) { return writeModel(folder, options); }
  std::string writeBoth() {
    Options options;
    options.targets = Targets::both;
    return write(options);
  }
  uint64_t calls(const char *symbol) { return fake.calls[symbol]; }

  fakecuda::Driver &fake = (fakecuda::load(), fakecuda::driver());
  Folder folder;
};

} // namespace toy

#endif // K3_TEST_RUNTIME_CUDATEST_H
