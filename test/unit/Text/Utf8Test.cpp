//===- Utf8Test.cpp - UTF-8 validation and repair -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Utf8.h"

#include "gtest/gtest.h"

using namespace k3rt;

namespace {
std::string repair(std::string_view bytes, size_t step) {
  Utf8Repairer repairer;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += step)
    repairer.push(bytes.substr(at, step), out);
  repairer.finish(out);
  return out;
}

TEST(Utf8, AcceptsEveryScalarValue) {
  std::string text;
  for (uint32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c > 0xDFFF)
      appendUtf8(text, c);
  EXPECT_EQ(findInvalidUtf8(text), text.size());
  EXPECT_EQ(repair(text, 7), text);
}

TEST(Utf8, NamesTheFirstBadByte) {
  struct {
    const char *bytes;
    size_t at;
  } cases[] = {{"abc\x80", 3},       {"a\xC0\x80", 1},  {"\xE0\x80\x80", 0},
               {"x\xED\xA0\x80", 1}, {"\xF4\x90\x80\x80", 0},
               {"ab\xE4\xBD", 2},    {"\xF5", 0},       {"\xC3\xA9\xFF", 2},
               {"\xF0\x8F\xBF\xBF", 0}};
  for (auto &test : cases)
    EXPECT_EQ(findInvalidUtf8(test.bytes), test.at) << test.bytes;
}

// Expected values are those of Python's bytes.decode("utf-8", "replace").
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  struct {
    std::string bytes, text;
  } cases[] = {
      {"a\x80z", "a" + r + "z"},
      {"\xE4\xBDz", r + "z"},
      {"\xE4z", r + "z"},
      {"\xED\xA0\x80", r + r + r},
      {"\xF0\x9F\x91", r},
      {"\xF0\x9F\x91\xF0\x9F\x91\x8D", r + "\xF0\x9F\x91\x8D"},
      {"\xC0\xAF", r + r},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"\xFF\xFE", r + r},
  };
  for (auto &test : cases)
    for (size_t step : {1, 2, 3, 100})
      EXPECT_EQ(repair(test.bytes, step), test.text) << step;
}

TEST(Utf8, HoldsBackAtMostThreeBytes) {
  Utf8Repairer repairer;
  std::string out;
  for (char c : std::string("\xF0\x9F\x91"))
    repairer.push({&c, 1}, out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(repairer.pending(), 3u);
  repairer.push("\x8D", out);
  EXPECT_EQ(out, "\xF0\x9F\x91\x8D");
  EXPECT_EQ(repairer.pending(), 0u);
}
} // namespace
