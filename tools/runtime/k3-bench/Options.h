//===- Options.h - command line of k3-bench ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_OPTIONS_H
#define K3_TOOLS_K3BENCH_OPTIONS_H

#include "runtime/src/base/DeviceName.h"

#include <cstdint>
#include <string>
#include <vector>

namespace k3bench {

enum class Suite { machine, ops, layers, model };

struct Options {
  std::string path; ///< artifact; empty only for the machine suite
  Suite suite = Suite::model;
  uint32_t threads = 0; ///< 0 = all cores
  uint64_t randomWeights = 0;
  std::string weightsDir;
  k3rt::DeviceName device;
  bool graph = true;
  int32_t cublas = 0;                        ///< as in k3rt_engine_options
  uint32_t repeat = 5;                       ///< rounds of every measurement
  std::vector<uint32_t> decodeBatches = {1}; ///< sequences of a decode step; empty = no decode
  std::vector<uint32_t> prefills = {512};    ///< tokens of a prefill; empty = no prefill
  uint32_t context = 64;                     ///< tokens of a sequence before decode is measured
  uint32_t prefillWindow = 0;                ///< most tokens of a prefill at a time; 0 = as many as it was compiled for
  bool profile = false;                      ///< model suite: every dispatch as well, by time
  std::string reportPath;                    ///< file that the JSON is written to, too; empty = none
  bool json = false, help = false, version = false;
};

/// Error: K3RT_INVALID_ARGUMENT, one line.
k3rt::Status parseOptions(const std::vector<std::string> &arguments, Options &options);

extern const char helpText[];

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_OPTIONS_H
