//===- OptionsTest.cpp - command line of k3-bench ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Options.h"

#include <gtest/gtest.h>

using namespace k3bench;

namespace {

std::string errorOf(const std::vector<std::string> &arguments) {
  Options options;
  k3rt::Status status = parseOptions(arguments, options);
  EXPECT_FALSE(status.ok());
  return status.message();
}

TEST(Options, AllOfThem) {
  Options options;
  k3rt::Status status =
      parseOptions({"--suite=cpu-layers", "--threads", "3", "--random-weights=7", "--repeat", "2", "m.k3a", "--json",
                    "--decode-batch", "1,4", "--prefill", "0", "--context=9", "--weights-dir", "w",
                    "--prefill-window", "64", "--report=r.json"},
                   options);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(options.path, "m.k3a");
  EXPECT_EQ(options.suite, Suite::layers);
  EXPECT_EQ(options.threads, 3u);
  EXPECT_EQ(options.randomWeights, 7u);
  EXPECT_EQ(options.repeat, 2u);
  EXPECT_TRUE(options.json);
  EXPECT_EQ(options.decodeBatches, (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(options.prefills, std::vector<uint32_t>());
  EXPECT_EQ(options.context, 9u);
  EXPECT_EQ(options.weightsDir, "w");
  EXPECT_EQ(options.prefillWindow, 64u);
  EXPECT_EQ(options.reportPath, "r.json");
  EXPECT_FALSE(options.profile);
}

TEST(Options, Devices) {
  auto parsed = [](const std::vector<std::string> &arguments) {
    Options options;
    k3rt::Status status = parseOptions(arguments, options);
    EXPECT_TRUE(status.ok()) << status.message();
    return options;
  };
  EXPECT_EQ(parsed({"a"}).device.text(), "cpu");
  EXPECT_TRUE(parsed({"a"}).graph);
  Options layers = parsed({"a", "--suite=gpu-layers", "--no-graph"});
  EXPECT_EQ(layers.device.text(), "cuda:0");
  EXPECT_EQ(layers.suite, Suite::layers);
  EXPECT_FALSE(layers.graph);
  EXPECT_EQ(layers.cublas, 0);
  EXPECT_EQ(parsed({"a", "--no-cublas"}).cublas, -1);
  EXPECT_EQ(parsed({"a", "--device=cuda:2", "--suite=gpu-ops"}).device.text(), "cuda:2");
  EXPECT_EQ(parsed({"a", "--suite=gpu-ops", "--device=cuda:2"}).device.text(), "cuda:2");
}

TEST(Options, Profile) {
  Options options;
  EXPECT_TRUE(parseOptions({"a", "--profile", "--suite", "gpu-model"}, options).ok());
  EXPECT_TRUE(options.profile);
  EXPECT_EQ(errorOf({"a", "--profile", "--suite=cpu-ops"}), "--profile is for the suites cpu-model and gpu-model");
}

TEST(Options, Mistakes) {
  EXPECT_EQ(errorOf({}), "no artifact given (see --help)");
  EXPECT_EQ(errorOf({"a", "b"}), "more than one artifact: 'b'");
  EXPECT_EQ(errorOf({"a", "--fast"}), "unknown option '--fast' (see --help)");
  EXPECT_EQ(errorOf({"a", "--json=1"}), "unknown option '--json=1' (see --help)");
  EXPECT_EQ(errorOf({"a", "--suite", "gpu"}), "--suite wants machine, or cpu- or gpu- with ops, layers or model, got 'gpu'");
  EXPECT_EQ(errorOf({"a", "--device", "gpu"}), "--device wants cpu, cuda:0, cuda:1, ..., got 'gpu'");
  EXPECT_EQ(errorOf({"a", "--device", "cuda:-1"}), "--device wants cpu, cuda:0, cuda:1, ..., got 'cuda:-1'");
  EXPECT_EQ(errorOf({"a", "--repeat"}), "--repeat needs a value");
  EXPECT_EQ(errorOf({"a", "--repeat", "0"}), "--repeat wants a number from 1 to 1000, got '0'");
  EXPECT_EQ(errorOf({"a", "--threads", "-1"}), "--threads wants a number from 1 to 1024, got '-1'");
  EXPECT_EQ(errorOf({"a", "--random-weights", "0"}), "--random-weights wants a number from 1 on, got '0'");
  for (std::string list : {"", "1,", ",1", "1,,2", "1,x", "0,1", "99999999999999999999"})
    EXPECT_EQ(errorOf({"a", "--decode-batch", list}),
              "--decode-batch wants numbers from 1 to 65536 with commas, or 0, got '" + list + "'");
}

TEST(Options, TheMachineNeedsNoArtifact) {
  Options options;
  EXPECT_TRUE(parseOptions({"--suite", "machine"}, options).ok());
}

} // namespace
