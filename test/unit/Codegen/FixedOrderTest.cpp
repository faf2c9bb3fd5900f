//===- FixedOrderTest.cpp - rows whose bits do not depend on other rows ---===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"
#include "lib/Reference/LatentMoe.h"
#include "test/unit/Codegen/KernelHarness.h"

#include <cstring>
#include <numeric>

using namespace k3;
using namespace k3::test;

namespace {

/// Rows [first, first + count) of an array of f32.
Array rowsOf(const Array &array, Index first, Index count) {
  Shape shape = array.shape();
  Index width = shape[0] ? array.elements() / shape[0] : 0;
  shape[0] = count;
  Array rows = Array::undefined("f32", shape);
  std::memcpy(rows.data(), static_cast<const float *>(array.data()) + first * width, count * width * sizeof(float));
  return rows;
}

bool sameBits(const Array &a, const Array &b) { return a.shape() == b.shape() && a.bytes() == b.bytes(); }

/// Kernels of a GPU have orders of their own.
#define SKIP_WHEN_EXPORTING()                                                                                          \
  if (exporting())                                                                                                     \
  GTEST_SKIP() << "fixed_order is a promise of the CPU's kernels; those for a GPU take no notice of it"

struct ProductCase {
  const char *op;
  bool bf16;
  Index k, n;
  bool accumulate;
};

TEST(FixedOrder, ProductsOfAnyNumberOfRows) {
  SKIP_WHEN_EXPORTING();
  for (const ProductCase &c : {ProductCase{"k3.linear", true, 64, 32, false}, ProductCase{"k3.linear", true, 333, 97, true},
                               ProductCase{"k3.linear", false, 2304, 7, false}, ProductCase{"k3.linear", true, 5000, 13, true},
                               ProductCase{"k3.mx.contract", false, 32, 1, false},
                               ProductCase{"k3.mx.contract", false, 96, 50, true},
                               ProductCase{"k3.mx.contract", false, 1056, 19, false}}) {
    bool mx = std::string(c.op) == "k3.mx.contract";
    Random random(static_cast<unsigned>(c.k + c.n));
    const Index most = 40;
    Array x = Array::f32({most, c.k}, random.normal(most * c.k)), old = Array::f32({most, c.n}, random.normal(most * c.n));
    std::vector<Array> weights;
    if (mx)
      weights = {Array::i8({c.n, c.k / 2}, random.bytes(c.n * c.k / 2)),
                 Array::i8({c.n, c.k / 32}, random.bytes(c.n * c.k / 32, 120, 131))};
    else
      weights = {Array::floats(c.bf16, {c.n, c.k}, random.normal(c.n * c.k))};
    for (const std::string &target : runnableTargets()) {
      KernelSpec spec(c.op);
      spec.in(rowsOf(x, 0, 1), {0});
      for (const Array &weight : weights)
        spec.in(weight);
      spec.out(rowsOf(old, 0, 1), {0}).attr("fixed_order");
      if (c.accumulate)
        spec.attr("accumulate");
      CompileOptions options;
      options.target = target;
      auto kernel = spec.compile(options);
      ASSERT_TRUE(kernel);
      auto run = [&](Index first, Index count) {
        Array out = rowsOf(old, first, count);
        std::vector<Array> arrays = {rowsOf(x, first, count)};
        arrays.insert(arrays.end(), weights.begin(), weights.end());
        arrays.push_back(out);
        kernel->run(arrays);
        return out;
      };
      Array all = run(0, most);
      for (Index count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 27})
        for (Index first : {0, 5, 13})
          ASSERT_TRUE(sameBits(run(first, count), rowsOf(all, first, count)))
              << c.op << " k " << c.k << ", " << target << ", rows " << first << " to " << first + count;
    }
  }
}

TEST(FixedOrder, ExpertsOfAnyNumberOfTokens) {
  SKIP_WHEN_EXPORTING();
  struct {
    const char *form;
    Index k, n;
    bool gated;
  } cases[] = {{"mxfp4", 96, 40, true},
               {"mxfp4", 160, 33, true},
               {"mxfp4", 640, 35, true},
               {"mxfp4", 1056, 7, false},
               {"bf16", 640, 33, true},
               {"f32", 37, 19, false}};
  const Index experts = 3, topK = 2, tokens = 31;
  for (const auto &c : cases) {
    Random random(11);
    bool mx = std::string(c.form) == "mxfp4";
    std::vector<Array> weights;
    for (int matrix = 0; matrix < (c.gated ? 2 : 1); ++matrix) {
      if (mx) {
        weights.push_back(Array::i8({experts, c.n, c.k / 2}, random.bytes(experts * c.n * c.k / 2)));
        weights.push_back(Array::i8({experts, c.n, c.k / 32}, random.bytes(experts * c.n * c.k / 32, 120, 124)));
      } else {
        weights.push_back(Array::floats(std::string(c.form) == "bf16", {experts, c.n, c.k},
                                        random.normal(experts * c.n * c.k, 0.05)));
      }
    }
    Array x = Array::f32({tokens, c.k}, random.normal(tokens * c.k));
    std::vector<std::int32_t> ids;
    for (Index t = 0; t < tokens; ++t) { // most go to the first two
      ids.push_back(static_cast<std::int32_t>(t % 2));
      ids.push_back(static_cast<std::int32_t>(t % 9 == 0 ? 2 : 1 - t % 2));
    }
    for (const std::string &target : runnableTargets()) {
      KernelSpec spec("k3.latent_moe.grouped_contract");
      spec.in(rowsOf(x, 0, 1), {0}).in(Array::i32({experts + 1}, std::vector<std::int32_t>(experts + 1)));
      spec.in(Array::i32({1, topK}, {0, 1}), {0}).in(weights[0]);
      std::vector<std::string> names = mx ? std::vector<std::string>{"scale", "up_weight", "up_scale"}
                                          : std::vector<std::string>{"up_weight"};
      for (std::size_t i = 1; i < weights.size(); ++i)
        spec.optional(names[i - 1], weights[i]);
      spec.out(Array::undefined("f32", {1, topK, c.n}), {0}).attr("fixed_order");
      if (c.gated)
        spec.attr("activation = #k3.activation<situ>, beta = 4.0, linear_beta = 25.0");
      CompileOptions options;
      options.target = target;
      auto kernel = spec.compile(options);
      ASSERT_TRUE(kernel);
      auto run = [&](Index first, Index count) {
        std::vector<std::int32_t> own(ids.begin() + first * topK, ids.begin() + (first + count) * topK);
        ref::MoePlan plan = ref::planExperts(own, experts);
        Array out = Array::undefined("f32", {count, topK, c.n});
        std::vector<Array> arrays = {rowsOf(x, first, count), Array::i32({experts + 1}, plan.offsets),
                                     Array::i32({count, topK}, plan.perm)};
        arrays.insert(arrays.end(), weights.begin(), weights.end());
        arrays.push_back(out);
        kernel->run(arrays);
        return out;
      };
      Array all = run(0, tokens);
      for (Index count : {1, 2, 3, 5, 9, 16})
        for (Index first : {0, 4, 9, 15})
          ASSERT_TRUE(sameBits(run(first, count), rowsOf(all, first, count)))
              << c.form << ", " << target << ", tokens " << first << " to " << first + count;
    }
  }
}

// A sequence cut anywhere, and one step after the other, which is what decoding runs.
TEST(FixedOrder, ScansCutAnywhere) {
  SKIP_WHEN_EXPORTING();
  const Index heads = 2, K = 24, V = 19, tokens = 23;
  Random random(12);
  Array q = Array::f32({tokens, heads, K}, random.normal(tokens * heads * K));
  Array k = Array::f32({tokens, heads, K}, random.normal(tokens * heads * K));
  Array v = Array::f32({tokens, heads, V}, random.normal(tokens * heads * V));
  Array beta = Array::f32({tokens, heads}, random.normal(tokens * heads));
  Array g = Array::f32({tokens, heads, K}, random.uniform(tokens * heads * K, -3, 0));
  Array start = Array::f32({1, heads, V, K}, random.normal(heads * V * K));
  for (const std::string &target : runnableTargets()) {
    CompileOptions options;
    options.target = target;
    auto compile = [&](bool step) {
      KernelSpec spec(step ? "k3.kda.recurrent_step" : "k3.kda.scan");
      spec.in(rowsOf(q, 0, 1), {0}).in(rowsOf(k, 0, 1), {0}).in(rowsOf(v, 0, 1), {0}).in(rowsOf(beta, 0, 1), {0});
      if (!step)
        spec.in(Array::i32({2}, {0, 1}), {0});
      spec.in(Array::i32({1}, {0}), {0}).optional("g", rowsOf(g, 0, 1), {0});
      spec.out(rowsOf(v, 0, 1), {0}).out(start, {0}).attr("scale = 0.2 : f64, l2norm = true, delta = true");
      if (!step)
        spec.attr("fixed_order");
      return spec.compile(options);
    };
    auto scan = compile(false), step = compile(true);
    ASSERT_TRUE(scan && step);
    EXPECT_TRUE(scan->isMadeBy(Way::emitter));
    auto run = [&](CompiledKernel &kernel, bool isStep, Index first, Index count, const Array &state) {
      Array out = Array::undefined("f32", {count, heads, V});
      std::vector<Array> arrays = {rowsOf(q, first, count), rowsOf(k, first, count), rowsOf(v, first, count),
                                   rowsOf(beta, first, count)};
      if (!isStep)
        arrays.push_back(Array::i32({2}, {0, static_cast<std::int32_t>(count)}));
      arrays.push_back(Array::i32({1}, {0}));
      arrays.insert(arrays.end(), {rowsOf(g, first, count), out, state});
      kernel.run(arrays);
      return out;
    };
    Array state = rowsOf(start, 0, 1), all = run(*scan, false, 0, tokens, state);
    for (Index cut = 1; cut < tokens; ++cut) {
      Array carried = rowsOf(start, 0, 1);
      ASSERT_TRUE(sameBits(run(*scan, false, 0, cut, carried), rowsOf(all, 0, cut))) << target << ", cut at " << cut;
      ASSERT_TRUE(sameBits(run(*scan, false, cut, tokens - cut, carried), rowsOf(all, cut, tokens - cut)))
          << target << ", cut at " << cut;
      ASSERT_TRUE(sameBits(carried, state)) << target << ", cut at " << cut;
    }
    Array carried = rowsOf(start, 0, 1);
    for (Index t = 0; t < tokens; ++t)
      ASSERT_TRUE(sameBits(run(*step, true, t, 1, carried), rowsOf(all, t, 1))) << target << ", step " << t;
    EXPECT_TRUE(sameBits(carried, state)) << target;
  }
}

} // namespace
