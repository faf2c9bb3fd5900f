//===- JsonTest.cpp - places, limits and twins in JSON --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Json.h"
#include "TestSupport.h"
#include "frontend/Text.h"

using namespace k3::frontend;
using namespace k3::test;

static std::string errorOf(const std::string &text) {
  return parseJsonTree(text, "a.json").message();
}

TEST(JsonTest, BuildsTheTree) {
  auto tree = parseJsonTree(
      R"({"a": [1, -2, 2.5, "x", true, null], "b": {"c": 18446744073709551615}})",
      "a.json");
  ASSERT_TRUE(tree.ok()) << tree.message();
  const auto &a = tree->find("a")->elements;
  ASSERT_EQ(a.size(), 6u);
  EXPECT_EQ(a[0].integer, 1);
  EXPECT_EQ(a[1].integer, -2);
  EXPECT_EQ(a[2].real, 2.5);
  EXPECT_EQ(a[3].string, "x");
  EXPECT_TRUE(a[4].boolean);
  EXPECT_TRUE(a[5].isNull());
  EXPECT_EQ(tree->find("b")->find("c")->kind, JsonValue::Kind::BigInteger);
  EXPECT_EQ(tree->find("z"), nullptr);
}

TEST(JsonTest, ErrorsCarryLineAndColumn) {
  expectMessage(errorOf("{\"a\": 1,\n  \"b\": }"), {"a.json:2:8: malformed"});
  expectMessage(errorOf("{\"a\": 1,\n  \"a\": 2}"),
                {"a.json:2:5:", "\"a\"", "twice"});
  expectMessage(errorOf("{\"a\": 1"), {"a.json:1:7:", "end of input"});
  expectMessage(errorOf(""), {"a.json:1:1:"});
  expectMessage(errorOf("[1] [2]"), {"a.json:1:5:"});
  expectMessage(errorOf("{\"a\": NaN}"), {"a.json:1:", "invalid literal"});
  expectMessage(errorOf("[1e400]"), {"a.json:1:", "overflow"});
  expectMessage(errorOf("[\"\xff\"]"), {"a.json:1:", "UTF-8"});
  expectMessage(errorOf(std::string("{}\0 5", 5)), {"a.json:1:3:", "NUL"});
}

TEST(JsonTest, ANumberIsPlacedOnItsOwnLine) {
  auto tree = parseJsonTree("{\n\"a\": 12\n}", "a.json");
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(placePrefix("{\n\"a\": 12\n}", tree->find("a")->offset, "a.json"),
            "a.json:2:7: ");
}

TEST(JsonTest, NestingIsBounded) {
  std::string fits =
      std::string(maxJsonDepth, '[') + std::string(maxJsonDepth, ']');
  EXPECT_TRUE(parseJsonTree(fits, "a.json").ok());
  expectMessage(errorOf('[' + fits + ']'), {"nested deeper than 64"});
  expectMessage(errorOf(std::string(1000000, '[')), {"nested deeper than 64"});
  std::string objects;
  for (int i = 0; i < 100000; ++i)
    objects += "{\"a\":";
  expectMessage(errorOf(objects), {"nested deeper than 64"});
}

TEST(TextTest, HostileTextStaysOneShortLine) {
  EXPECT_EQ(quote("a\nb\x1b[31m"), "\"a\\x0ab\\x1b[31m\"");
  EXPECT_EQ(quote("\xff\xc3\xa9"), "\"\\xff\xc3\xa9\"");
  EXPECT_EQ(quote(std::string(1000, 'x'), 10), "\"xxxxxxxxxx...\"");
  EXPECT_EQ(shapeText({}), "[]");
  EXPECT_EQ(shapeText({3, 4}), "[3, 4]");
}
