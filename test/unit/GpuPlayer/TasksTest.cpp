//===- TasksTest.cpp - what of case files is played ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Tasks.h"

#include "gtest/gtest.h"

using namespace k3::gpu;

namespace {

TEST(Tasks, OneOfEachIsAboveThreeQuarters) {
  CaseSet set;
  set.kernels.resize(3);
  set.kernels[0].op = set.kernels[1].op = set.kernels[2].op = "k3.toy";
  set.kernels[0].strategy = set.kernels[2].strategy = "tiles";
  set.kernels[1].strategy = "generic";
  std::vector<Task> tasks;
  auto add = [&](const std::string &dtype, Index size, std::vector<Variant> variants) {
    Argument argument;
    argument.dtype = dtype;
    argument.shape = {size};
    Case c;
    c.arguments = {argument};
    c.variants = std::move(variants);
    for (std::size_t variant = 0; variant < c.variants.size(); ++variant)
      tasks.push_back({0, set.cases.size(), variant});
    set.cases.push_back(c);
  };
  add("f32", 7, {{0}, {1}});
  add("f32", 0, {{0}});
  add("bf16", 1000, {{0}});
  add("f32", 90, {{2}}); // another kernel of the same op and strategy
  add("f32", 30, {{0}});
  std::vector<Task> chosen = chooseOneOfEach({set}, tasks);
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_EQ(chosen[0].number, 0u); // the only generic one
  EXPECT_EQ(chosen[0].variant, 1u);
  EXPECT_EQ(chosen[1].number, 2u); // the only one on bf16
  EXPECT_EQ(chosen[2].number, 3u); // of 0, 7, 30 and 90 elements
}

} // namespace
