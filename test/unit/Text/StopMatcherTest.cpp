//===- StopMatcherTest.cpp - when to stop generating --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/StopMatcher.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace k3rt;

namespace {
StopMatcher matcher(std::vector<std::string> strings,
                    std::vector<int32_t> ids = {}) {
  StopMatcher result;
  std::string error;
  EXPECT_TRUE(result.init({std::move(ids), std::move(strings)}, error))
      << error;
  return result;
}

TEST(StopMatcher, StopsAtAnyOfSeveralIds) {
  StopMatcher stop = matcher({}, {4097, 4098});
  EXPECT_TRUE(stop.isStopId(4097));
  EXPECT_TRUE(stop.isStopId(4098));
  EXPECT_FALSE(stop.isStopId(4096));
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStopString) {
  StopMatcher stop = matcher({"END"});
  std::string out;
  EXPECT_FALSE(stop.push("text E", out));
  EXPECT_EQ(out, "text ");
  EXPECT_FALSE(stop.push("N", out));
  EXPECT_EQ(out, "text ");
  EXPECT_FALSE(stop.push("E", out));
  EXPECT_EQ(out, "text EN");
  EXPECT_TRUE(stop.push("ND and more", out));
  EXPECT_EQ(out, "text EN");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.found(), "END");
  stop.finish(out);
  EXPECT_EQ(out, "text EN");
}

TEST(StopMatcher, EndOfStreamGivesOutWhatWasHeld) {
  StopMatcher stop = matcher({"\n\nUser:"});
  std::string out;
  EXPECT_FALSE(stop.push("Well.\n\nUse", out));
  EXPECT_EQ(out, "Well.");
  stop.finish(out);
  EXPECT_EQ(out, "Well.\n\nUse");
  EXPECT_FALSE(stop.stopped());
}

TEST(StopMatcher, FirstCompleteThenLongest) {
  std::string out;
  StopMatcher stop = matcher({"abcd", "bc"});
  EXPECT_TRUE(stop.push("xabcd", out));
  EXPECT_EQ(out, "xa");
  EXPECT_EQ(stop.found(), "bc");
  out.clear();
  stop = matcher({"c", "abc"});
  EXPECT_TRUE(stop.push("xabc", out));
  EXPECT_EQ(out, "x");
  EXPECT_EQ(stop.found(), "abc");
}

TEST(StopMatcher, RefusesAnEmptyStopString) {
  StopMatcher stop;
  std::string error;
  EXPECT_FALSE(stop.init({{}, {"a", ""}}, error));
  EXPECT_EQ(error, "a stop string is empty");
}

/// The rule itself: the stop string whose end comes first, of those the longest.
std::string cutByTheBook(const std::string &text,
                         const std::vector<std::string> &strings) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string &string : strings)
      if (string.size() <= end &&
          text.compare(end - string.size(), string.size(), string) == 0)
        longest = std::max(longest, string.size());
    if (longest != 0)
      return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcher, DoesNotDependOnHowTextIsCut) {
  std::mt19937 random(11);
  auto word = [&random](size_t length) {
    std::string text;
    while (text.size() < length)
      text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> strings;
    for (size_t n = 1 + random() % 3; n > 0; --n)
      strings.push_back(word(1 + random() % 6));
    std::string text = word(random() % 30);
    StopMatcher stop = matcher(strings);
    std::string out;
    size_t longest = 0;
    for (const std::string &string : strings)
      longest = std::max(longest, string.size());
    for (size_t at = 0; at < text.size();) {
      size_t length = 1 + random() % 4;
      stop.push(std::string_view(text).substr(at, length), out);
      at += length;
      // Never more held back than a stop string could need.
      if (!stop.stopped()) {
        ASSERT_LT(std::min(at, text.size()) - out.size(), longest);
      }
    }
    stop.finish(out);
    ASSERT_EQ(out, cutByTheBook(text, strings)) << text;
  }
}
} // namespace
