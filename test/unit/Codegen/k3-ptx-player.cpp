//===- k3-ptx-player.cpp - replays kernel tests without a GPU ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Player.h"
#include "test/unit/Codegen/PtxGpu.h"

#include <cstdio>

using namespace k3;

/// k3-ptx-player FILE.json: plays every variant of every case once. Exit code 1 where one fails.
int main(int argc, char **argv) {
  gpu::CaseSet set;
  std::string error;
  if (argc != 2 || !set.read(argv[1], error)) {
    std::fprintf(stderr, "k3-ptx-player: %s\n", error.empty() ? "takes one case file" : error.c_str());
    return 2;
  }
  gpu::PlayOptions options;
  options.exactMemory = true;
  test::PtxGpu machine;
  gpu::Player player(machine, set, options);
  int passed = 0, failed = 0;
  for (const gpu::Case &c : set.cases)
    for (const gpu::Variant &variant : c.variants) {
      gpu::PlayResult result;
      try {
        result = player.play(c, variant);
      } catch (const gpu::GpuError &e) {
        result.failures.push_back(e.what());
      }
      ++(result.failures.empty() ? passed : failed);
      for (const std::string &failure : result.failures)
        std::printf("FAILED %s [%s]: %s\n", c.test.c_str(), set.kernels[variant.kernel].strategy.c_str(),
                    failure.c_str());
    }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
