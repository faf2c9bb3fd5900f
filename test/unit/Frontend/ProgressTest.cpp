//===- ProgressTest.cpp - the line of the progress bar -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Progress.h"

#include <gtest/gtest.h>

using k3::frontend::Progress;

TEST(ProgressTest, ShowsShareSpeedAndRest) {
  Progress progress("packing weights", 4'000'000'000);
  progress.advance(500'000'000);
  progress.advance(500'000'000);
  EXPECT_EQ(progress.getText(2.0),
            "packing weights [######..................]  25%  1.0 of 4.0 GB  0.50 GB/s  6 s left");
  progress.advance(3'000'000'000);
  EXPECT_EQ(progress.getText(8.0),
            "packing weights [########################] 100%  4.0 of 4.0 GB  0.50 GB/s  0 s left");
}

TEST(ProgressTest, SurvivesNothingToDo) {
  Progress progress("packing weights", 0);
  EXPECT_EQ(progress.getText(0.0),
            "packing weights [########################] 100%  0.0 of 0.0 GB  0.00 GB/s  0 s left");
}
