//===- WindowTest.cpp - which rows a program run takes -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/Window.h"

#include <gtest/gtest.h>
#include <random>

using namespace k3rt;

namespace {

std::vector<WindowPart> next(const std::vector<BatchRow> &batch,
                             WindowLimits limits) {
  std::vector<WindowPart> window;
  nextWindow(batch, limits, window);
  return window;
}

BatchRow row(uint64_t tokens, Logits logits = Logits::last,
             uint64_t done = 0) {
  BatchRow out;
  out.numTokens = tokens;
  out.logits = logits;
  out.done = done;
  return out;
}

TEST(Window, CutsLongRows) {
  auto window = next({row(3), row(100), row(5)}, {16, 8, 8});
  ASSERT_EQ(window.size(), 2u);
  EXPECT_EQ(window[0].count, 3u);
  EXPECT_EQ(window[0].logitRows, 1u);
  EXPECT_EQ(window[1].count, 13u);
  EXPECT_EQ(window[1].logitRows, 0u);
}

// The last token must run in a window that has room for its logits.
TEST(Window, LastTokenWaitsForLogits) {
  auto window = next({row(2), row(4)}, {16, 8, 1});
  ASSERT_EQ(window.size(), 2u);
  EXPECT_EQ(window[1].count, 3u);
  EXPECT_EQ(window[1].logitRows, 0u);
  window = next({row(2), row(1), row(3)}, {16, 8, 1});
  ASSERT_EQ(window.size(), 1u);
}

TEST(Window, RowsWithoutLogitsNeedNoRoomForThem) {
  auto window =
      next({row(2), row(4, Logits::none), row(1, Logits::none)}, {16, 8, 1});
  ASSERT_EQ(window.size(), 3u);
  EXPECT_EQ(window[1].count, 4u);
  EXPECT_EQ(window[1].logitRows, 0u);
}

TEST(Window, NothingLeft) {
  EXPECT_TRUE(next({row(2, Logits::last, 2), row(0)}, {4, 4, 4}).empty());
  EXPECT_TRUE(next({}, {4, 4, 4}).empty());
}

TEST(Window, RandomBatchesAreCoveredInOrder) {
  std::mt19937 random(50);
  for (int round = 0; round < 2000; ++round) {
    std::vector<BatchRow> batch(1 + random() % 6);
    for (BatchRow &one : batch)
      one = row(random() % 20, Logits(random() % 3));
    WindowLimits limits = {uint32_t(1 + random() % 12),
                           uint32_t(1 + random() % 4),
                           uint32_t(1 + random() % 5)};
    std::vector<uint64_t> logits(batch.size());
    uint32_t lastRow = 0;
    for (int guard = 0;; ++guard) {
      ASSERT_LT(guard, 200) << "no progress";
      auto window = next(batch, limits);
      if (window.empty())
        break;
      uint32_t rows = 0, logitRows = 0;
      ASSERT_LE(window.size(), limits.sequences);
      for (const WindowPart &part : window) {
        ASSERT_GE(part.row, lastRow);
        lastRow = part.row;
        BatchRow &one = batch[part.row];
        ASSERT_GE(part.count, 1u);
        ASSERT_LE(part.logitRows, part.count);
        bool ends = part.count == one.remaining();
        bool last = one.logits == Logits::last && ends;
        EXPECT_EQ(part.logitRows,
                  one.logits == Logits::all ? part.count : (last ? 1u : 0u));
        one.done += part.count;
        logits[part.row] += part.logitRows;
        rows += part.count;
        logitRows += part.logitRows;
      }
      EXPECT_LE(rows, limits.rows);
      EXPECT_LE(logitRows, limits.logitRows);
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(batch[i].remaining(), 0u);
      EXPECT_EQ(logits[i], batch[i].numLogitRows());
    }
  }
}

} // namespace
