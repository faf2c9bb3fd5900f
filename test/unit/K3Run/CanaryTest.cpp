//===- CanaryTest.cpp - the statistics and pages of canary reports ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/canary/Report.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

using namespace k3run::canary;

namespace {

TEST(CanaryStatistics, LoadSkew) {
  LoadSkew even = loadSkew({5, 5, 5, 5});
  EXPECT_DOUBLE_EQ(even.maxOverMean, 1);
  EXPECT_DOUBLE_EQ(even.variation, 0);
  EXPECT_DOUBLE_EQ(even.entropy, 1);
  EXPECT_EQ(even.unused, 0u);
  LoadSkew one = loadSkew({0, 8, 0, 0});
  EXPECT_DOUBLE_EQ(one.maxOverMean, 4);
  EXPECT_DOUBLE_EQ(one.variation, std::sqrt(3.0));
  EXPECT_DOUBLE_EQ(one.entropy, 0);
  EXPECT_EQ(one.unused, 3u);
  // Half and half: one bit of two.
  EXPECT_DOUBLE_EQ(loadSkew({4, 0, 4, 0}).entropy, 0.5);
  EXPECT_EQ(loadSkew({0, 0}).unused, 2u);
  EXPECT_EQ(loadSkew({0, 0}).maxOverMean, 0);
}

// All values of E2M1, from the format's own table.
TEST(CanaryStatistics, RoundsToMxfp4) {
  const float grid[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<float> out;
  for (float scale : {1.0f, 0x1p-9f, 0x1p20f}) {
    std::vector<float> block;
    for (float value : grid)
      for (float sign : {1.0f, -1.0f})
        block.push_back(sign * value * scale);
    roundToMx(block.data(), block.size(), MxElement::e2m1, out);
    EXPECT_EQ(out, block);
    // In between: to the nearer one, ties to even mantissas.
    std::vector<float> between = {6 * scale, 2.4f * scale, 2.5f * scale,
                                  0.25f * scale, 0.75f * scale, 5 * scale};
    roundToMx(between.data(), between.size(), MxElement::e2m1, out);
    EXPECT_EQ(out, (std::vector<float>{6 * scale, 2 * scale, 2 * scale, 0,
                                       1 * scale, 4 * scale}));
  }
  // Up to just below the next power of two the scale stays: saturates at 6.
  std::vector<float> large = {7.9f, 1};
  roundToMx(large.data(), 2, MxElement::e2m1, out);
  EXPECT_EQ(out, (std::vector<float>{6, 1}));
  // Blocks of 32 have scales of their own.
  std::vector<float> blocks(64, 0);
  blocks[0] = 6;
  blocks[32] = 6 * 0x1p-30f;
  roundToMx(blocks.data(), 64, MxElement::e2m1, out);
  EXPECT_EQ(out, blocks);
}

TEST(CanaryStatistics, RoundsToMxfp8) {
  std::vector<float> out, values = {448, 416, 1.0625f, 0x1p-9f, 0x1p-10f, -3};
  roundToMx(values.data(), values.size(), MxElement::e4m3, out);
  EXPECT_EQ(out, (std::vector<float>{448, 416, 1, 0x1p-9f, 0, -3}));
}

TEST(CanaryStatistics, Outliers) {
  // Alternating signs: flat.
  std::vector<float> flat(64);
  for (size_t i = 0; i < flat.size(); ++i)
    flat[i] = i % 2 ? 1.5f : -1.5f;
  Outliers none = outliers(flat.data(), 2, 32);
  EXPECT_DOUBLE_EQ(none.maxOverRms, 1);
  EXPECT_DOUBLE_EQ(none.kurtosis, 1);
  EXPECT_EQ(none.mxfp4Error, 0);
  // One large value in a row of small ones takes their precision away.
  flat[5] = 1000;
  Outliers one = outliers(flat.data(), 2, 32);
  EXPECT_NEAR(one.maxOverRms, std::sqrt(32.0), 0.01);
  EXPECT_GT(one.kurtosis, 10);
  EXPECT_GT(one.mxfp4Error, 0.005);
  EXPECT_LT(one.mxfp8Error, one.mxfp4Error);
}

TEST(CanaryStatistics, KlAndErrors) {
  float a[] = {0, std::log(3.0f)}, b[] = {5, 5};
  // p = 1/4, 3/4 against 1/2, 1/2.
  EXPECT_NEAR(klDivergence(a, b, 2),
              0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-6);
  EXPECT_EQ(klDivergence(a, a, 2), 0);
  float x[] = {3, 4}, y[] = {3, 5}, zero[] = {0, 0};
  EXPECT_DOUBLE_EQ(relativeError(y, x, 2), 0.2);
  EXPECT_DOUBLE_EQ(relativeError(x, zero, 2), 5);
  EXPECT_EQ(argmax(x, 2), 1u);
  EXPECT_EQ(argmax(b, 2), 0u);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(CanaryStatistics, Bf16) {
  EXPECT_EQ(roundToBf16(1.0f), 1.0f);
  EXPECT_EQ(roundToBf16(1 + 0x1p-8f), 1.0f);            // tie to even
  EXPECT_EQ(roundToBf16(1 + 3 * 0x1p-8f), 1 + 0x1p-6f); // tie to even
  EXPECT_EQ(roundToBf16(-1 - 0x1.1p-8f), -1 - 0x1p-7f);
  EXPECT_TRUE(std::isnan(roundToBf16(NAN)));
}

Report sample() {
  Report report;
  report.model = "a <model> & \"more\"";
  report.latency = {{16, 1.5, 0.25}, {64, 4, 0.5}};
  report.routing = {{1, 10, 8, loadSkew({1, 2, 3, 4, 0, 0, 0, 0})}};
  report.drift = {{"bf16 <state>", {1e-3, NAN}, 1e-5, 1, 64}};
  report.outliers = {{0, {3, 4, 0.1, 0.01}}, {1, {5, 6, 0.1, 0.01}}};
  report.reuse.warmFirstTokenMs = NAN;
  return report;
}

TEST(CanaryReport, Json) {
  nlohmann::json json = nlohmann::json::parse(toJson(sample()));
  EXPECT_EQ(json["latency"][1]["context"], 64);
  EXPECT_EQ(json["routing"][0]["unused"], 4);
  EXPECT_TRUE(json["drift"][0]["layer_rel_errors"][1].is_null());
  EXPECT_TRUE(json["reuse"]["warm_first_token_ms"].is_null());
  EXPECT_EQ(json["outliers"].size(), 2u);
}

// A page of its own: no scripts, no addresses, names as text.
TEST(CanaryReport, Html) {
  std::string page = toHtml(sample());
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_NE(page.find("a &lt;model&gt; &amp; &quot;more&quot;"),
            std::string::npos);
  for (const char *text : {"<model>", "<state>", "http", "<script", "nan"})
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  size_t plots = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at)
    ++plots;
  EXPECT_EQ(plots, 7u);
  // Nothing found, nothing drawn.
  EXPECT_EQ(toHtml(Report()).find("<svg"), std::string::npos);
}

} // namespace
