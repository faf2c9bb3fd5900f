//===- ReportTest.cpp - measurements as JSON and as a table --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Report.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace k3bench;

namespace {

const std::vector<Measurement> sample = {
    {"decode", {{"batch", 1}, {"kind", "kda_moe"}}, 24, "GB/s", 32},
    {"read_bandwidth", {{"threads", 2}}, 31234.5, "GB/s", std::nullopt},
};

TEST(Report, Json) {
  EXPECT_EQ(toJson(sample),
            R"([{"name":"decode","params":{"batch":1,"kind":"kda_moe"},"value":24.0,"unit":"GB/s","limit":32.0,)"
            R"("fraction":0.75},{"name":"read_bandwidth","params":{"threads":2},"value":31234.5,"unit":"GB/s",)"
            R"("limit":null,"fraction":null}])"
            "\n");
  EXPECT_EQ(toJson({}), "[]\n");
}

// JSON has no NaN, and names come from files.
TEST(Report, JsonOfWhatIsNoNumberOrText) {
  std::string text = toJson({{"a\xff\"\n", {{"x", std::nan("")}}, std::nan(""), "us", INFINITY}});
  auto parsed = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(parsed.is_array());
  EXPECT_TRUE(parsed[0]["value"].is_null());
  EXPECT_TRUE(parsed[0]["limit"].is_null());
  EXPECT_TRUE(parsed[0]["params"]["x"].is_null());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
}

TEST(Report, Table) {
  EXPECT_EQ(toTable(sample), "name            value  unit  limit  reached  with\n"
                             "decode             24  GB/s     32      75%  batch=1 kind=kda_moe\n"
                             "read_bandwidth  31234  GB/s      -        -  threads=2\n");
}

} // namespace
