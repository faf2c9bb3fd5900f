//===- SuitesTest.cpp - suites on a small model --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"
#include "test/unit/Runtime/FakeCuda/FakeCuda.h"
#include "test/unit/Runtime/ToyModel.h"

#include <gtest/gtest.h>

using namespace k3bench;

namespace {

class Suites : public testing::Test {
protected:
  /// Suite on the toy model with made-up weights; decode of two sequences after 9 tokens, prefill of 7 tokens.
  std::vector<Measurement> run(Suite suite, const Options &more = {}) {
    toy::Options model;
    model.weights = toy::Weights::none;
    if (!more.device.isCpu())
      model.targets = toy::Targets::gpu;
    Options options = more;
    options.path = toy::writeModel(folder, model);
    options.suite = suite;
    options.threads = 2;
    options.repeat = 1;
    options.randomWeights = 3;
    options.decodeBatches = {2};
    options.prefills = {7};
    options.context = 9;
    std::vector<Measurement> report;
    k3rt::Status status = runSuite(options, report);
    EXPECT_TRUE(status.ok()) << status.message();
    for (const Measurement &measurement : report)
      EXPECT_GT(measurement.value, 0) << measurement.name;
    return report;
  }

  toy::Folder folder;
};

// See ToyModel.h: states of 32 bytes, windows of 32, cache rows of 32, one of three experts of 32 bytes per token.
constexpr double kdaBytes = 32 + 2 * 2 * (32 + 32);
constexpr double mlaBytes = 96 * (1 - 2. / 3 * 2 / 3) + 2 * 32 * (9 + 1 + 1);

TEST_F(Suites, Model) {
  std::vector<Measurement> report = run(Suite::model);
  ASSERT_EQ(report.size(), 3u);
  EXPECT_EQ(report[0].name, "decode");
  EXPECT_EQ(report[0].unit, "tokens/s");
  EXPECT_EQ(report[0].params["batch"], 2);
  EXPECT_EQ(report[0].params["context"], 9);
  EXPECT_NEAR(report[0].params["bytes"].get<double>(), 2 * kdaBytes + mlaBytes, 1e-9);
  // Two tokens per step of those bytes at the bandwidth.
  EXPECT_NEAR(*report[0].limit, 2 * report[0].params["read_gb_per_s"].get<double>() * 1e9 / (2 * kdaBytes + mlaBytes),
              *report[0].limit * 1e-9);
  EXPECT_NEAR(report[0].value * report[0].params["ms"].get<double>() / 1e3, 2, 1e-6);
  EXPECT_EQ(report[1].name, "prefill");
  EXPECT_EQ(report[1].params["tokens"], 7);
  EXPECT_FALSE(report[1].limit); // the toy has no matrix
  EXPECT_EQ(report[2].name, "first_token");
  EXPECT_EQ(report[2].unit, "ms");
  EXPECT_EQ(report[2].params["tokens"], 7);
}

/// Dispatches behind the line of their sum: all of a step are there, the longest first.
void expectProfile(const std::vector<Measurement> &report, size_t &at, const char *phase, size_t rows, uint32_t calls) {
  ASSERT_LE(at + 1 + rows, report.size());
  const Measurement &sum = report[at];
  EXPECT_EQ(sum.name, "profile");
  EXPECT_EQ(sum.unit, "us");
  EXPECT_EQ(sum.params["phase"], phase);
  EXPECT_EQ(sum.params["calls"], calls);
  EXPECT_GT(sum.params["without_profile_us"], 0);
  double microseconds = 0, shares = 0, before = sum.value;
  uint32_t counted = 0;
  for (size_t i = at + 1; i <= at + rows; ++i) {
    const auto &params = report[i].params;
    EXPECT_EQ(params["phase"], phase);
    EXPECT_EQ(report[i].name, "do_" + params["kernel"].get<std::string>());
    EXPECT_LE(params["step_us"], before);
    before = params["step_us"];
    microseconds += before;
    shares += params["share"].get<double>();
    counted += params["calls"].get<uint32_t>();
  }
  EXPECT_NEAR(microseconds, sum.value, sum.value * 1e-9);
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(counted, calls);
  at += 1 + rows;
}

TEST_F(Suites, ModelWithProfile) {
  Options options;
  options.profile = true;
  std::vector<Measurement> report = run(Suite::model, options);
  ASSERT_EQ(report.size(), 3u + 7 + 9);
  EXPECT_EQ(report[0].name, "decode");
  size_t at = 1;
  expectProfile(report, at, "decode", 6, 8);
  EXPECT_EQ(report[at].name, "prefill");
  at += 2;
  expectProfile(report, at, "prefill", 8, 12);
}

// On the fake driver.
TEST_F(Suites, ModelOnAGpu) {
  fakecuda::load();
  fakecuda::reset();
  Options options;
  ASSERT_TRUE(k3rt::parseDeviceName("cuda:0", options.device).ok());
  options.profile = true;
  std::vector<Measurement> report = run(Suite::model, options);
  ASSERT_EQ(report.size(), 3u + 7 + 9 + 1);
  EXPECT_NEAR(report[0].params["read_gb_per_s"].get<double>(), 3.201 * 2 * 6144 / 8, 1e-6);
  size_t at = 1;
  expectProfile(report, at, "decode", 6, 8);
  at += 2;
  expectProfile(report, at, "prefill", 8, 12);
  const Measurement &memory = report.back();
  EXPECT_EQ(memory.name, "gpu_memory");
  const auto &params = memory.params;
  EXPECT_EQ(params["measured_bytes"], params["allocated_bytes"]) << "the fake driver takes nothing for itself";
  EXPECT_GT(params["planned_bytes"], 1000);
  EXPECT_GE(params["measured_bytes"], params["planned_bytes"]);
  EXPECT_LE(params["measured_bytes"], params["planned_bytes"].get<uint64_t>() + 1024) << "alignment";
  EXPECT_EQ(params["products"], "own kernels");
  EXPECT_LE(params["loaded_bytes"], params["measured_bytes"]);
  EXPECT_GE(params["loaded_bytes"], params["planned_bytes"]);
  EXPECT_DOUBLE_EQ(*memory.fraction(),
                   params["measured_bytes"].get<double>() / params["planned_bytes"].get<double>());
  EXPECT_EQ(fakecuda::driver().problems, std::vector<std::string>());
  EXPECT_EQ(fakecuda::driver().live.objects(), 0u);
}

TEST_F(Suites, Layers) {
  std::vector<Measurement> report = run(Suite::layers);
  std::vector<std::string> found;
  for (const Measurement &measurement : report)
    found.push_back(measurement.name + " " + measurement.params["kind"].get<std::string>() + " " +
                    measurement.params["layers"].dump() + " " + measurement.unit);
  EXPECT_EQ(found, (std::vector<std::string>{"decode_layers all 3 GB/s", "decode_layers kda 2 GB/s",
                                             "decode_layers mla 1 GB/s"}));
  ASSERT_EQ(report.size(), 3u);
  for (const Measurement &measurement : report) {
    double bytes = measurement.params["bytes"].get<double>();
    EXPECT_NEAR(measurement.value, bytes / measurement.params["ms"].get<double>() / 1e6, measurement.value * 1e-9);
    EXPECT_GT(*measurement.limit, 0);
  }
  EXPECT_NEAR(report[0].params["bytes"].get<double>(), 2 * kdaBytes + mlaBytes, 1e-9);
  EXPECT_NEAR(report[1].params["bytes"].get<double>(), 2 * kdaBytes, 1e-9);
}

TEST_F(Suites, Ops) {
  std::vector<std::string> found;
  for (const Measurement &measurement : run(Suite::ops)) {
    found.push_back(measurement.params["phase"].get<std::string>() + " " + measurement.params["in"].get<std::string>() +
                    " " + measurement.name + " " + measurement.params["calls"].dump() + " " +
                    measurement.params["bytes"].dump() + " " + measurement.unit);
    EXPECT_EQ(measurement.limit.has_value(), measurement.unit == "GB/s");
  }
  // Decode: two rows of 32 bytes of the table, windows and states of two sequences, 2 x 10 rows of the cache.
  ASSERT_GE(found.size(), 6u);
  EXPECT_EQ(found[0], "decode prologue do_embed 1 64.0 GB/s");
  EXPECT_EQ(found[1], "decode kda do_conv 2 128.0 GB/s");
  EXPECT_EQ(found[2], "decode kda do_recurrent_step 2 160.0 GB/s");
  EXPECT_EQ(found[3], "decode mla do_append 1 64.0 GB/s");
  EXPECT_EQ(found[4].substr(0, 26), "decode mla do_attend 1 693");
  EXPECT_EQ(found[5], "decode epilogue do_head 1 0.0 us");
  EXPECT_EQ(std::vector<std::string>(found.begin() + 6, found.end()),
            (std::vector<std::string>{"prefill prologue do_embed 1 224.0 GB/s", "prefill kda do_conv 2 64.0 GB/s",
                                      "prefill kda do_chunk_sums 2 32.0 GB/s", "prefill kda do_chunk_scan 2 64.0 GB/s",
                                      "prefill kda do_chunk_apply 2 32.0 GB/s", "prefill mla do_append 1 224.0 GB/s",
                                      found[12], "prefill epilogue do_head 1 0.0 us"}));
}

TEST_F(Suites, WithoutWeights) {
  toy::Options model;
  model.weights = toy::Weights::none;
  Options options;
  options.path = toy::writeModel(folder, model);
  std::vector<Measurement> report;
  EXPECT_EQ(runSuite(options, report).message(),
            options.path + ": compiled without weights: use --random-weights SEED to make some up");
}

TEST(Median, OfOddAndEven) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 3, 1, 2}), 2);
}

} // namespace
