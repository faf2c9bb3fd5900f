//===- LinearKernelTest.cpp - compiled k3.linear against the reference ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"
#include "test/unit/Codegen/KernelHarness.h"

using namespace k3;
using namespace k3::test;

namespace {

struct LinearCase {
  Index k, n;
  bool bf16, accumulate;
  std::vector<Index> tiles;
  bool bf16Inputs = false;
  /// x, and the result, are bf16 in memory, as only GPUs have it.
  bool bf16Stored = false, bf16Result = false;
  /// On a GPU x is the sum of two bf16.
  bool twoTerms = false;
};

class LinearKernel : public ::testing::TestWithParam<LinearCase> {};

// f32 products and sums of k terms: the error of a sum of k random terms is about sqrt(k) half ulps of its size; 2e-6
// of the largest output covers k up to some thousands with room.
constexpr double tolerance = 2e-6;
// Where one thread adds up all products of a row.
constexpr double gpuTolerance = 5e-6;
// Of rounded inputs, whose products tensor cores add up without rounding: k / 16 instructions in a row.
constexpr double roundedTolerance = 1e-5;
// Of inputs that are sums of two bf16: 16 of 24 bits.
constexpr double twoTermsTolerance = 1.0 / (1 << 16);
// The last place of a bf16 result, which decompositions round more than once.
constexpr double resultTolerance = 1.0 / 256;

void check(const LinearCase &c, const CompileOptions &options) {
  Random random(static_cast<unsigned>(c.k * 131 + c.n));
  Array weight = Array::floats(c.bf16, {c.n, c.k}, random.normal(c.n * c.k));
  auto inputs = [&](Index rows) {
    return std::pair(Array::floats(c.bf16Stored, {rows, c.k}, random.normal(rows * c.k)), random.normal(rows * c.n));
  };
  auto [x0, y0] = inputs(3);
  KernelSpec spec("k3.linear");
  spec.in(x0, {0}).in(weight).out(Array::floats(c.bf16Result, {3, c.n}, y0), {0});
  if (c.accumulate)
    spec.attr("accumulate");
  if (c.bf16Inputs)
    spec.attr("bf16_x");
  if (c.twoTerms)
    spec.xTerms(2);
  auto kernel = spec.compile(options);
  if (!kernel)
    return;
  EXPECT_TRUE(kernel->isMadeBy(options.forceGeneric ? Way::decomposition : Way::emitter));
  std::vector<Index> counts{0, 1, 2, 3, 5, 8, 13, 66};
  if (c.bf16Stored)
    counts.push_back(200);
  else if (!exporting() && !simulating()) // as many tokens as a vector has lanes, and nearly twice as many
    counts.insert(counts.end(), {16, 31});
  for (Index rows : counts) {
    auto [x, old] = inputs(rows);
    const char *dtype = c.bf16Result ? "bf16" : "f32";
    Array out = c.accumulate ? Array::f32({rows, c.n}, old) : Array::undefined(dtype, {rows, c.n});
    kernel->run({x, weight, out});
    Vec inputs = c.bf16Inputs ? Array::bf16({rows, c.k}, x.values()).values() : x.values();
    Vec expected = ref::linear(inputs, weight.values(), rows, c.k, c.n);
    if (c.accumulate)
      expected = ref::add(expected, old);
    double onGpu = c.twoTerms ? twoTermsTolerance : c.bf16Inputs || c.bf16Stored ? roundedTolerance : gpuTolerance;
    Tolerance allowed{tolerate(tolerance, onGpu), c.bf16Result ? resultTolerance : 0, 0};
    EXPECT_TRUE(isClose(out, expected, allowed)) << options << ", " << rows << " rows";
  }
}

TEST_P(LinearKernel, MatchesReference) {
  if (GetParam().bf16Stored && !simulating() && !exporting())
    GTEST_SKIP() << "activations stored in bf16 are for GPUs: runs where K3_SIMULATE_GPU or K3_EXPORT_CASES is set";
  for (CompileOptions way : allWays()) {
    way.tiles = GetParam().tiles;
    check(GetParam(), way);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LinearKernel,
    ::testing::Values(LinearCase{64, 32, true, false, {}}, LinearCase{320, 96, true, true, {}},
                      LinearCase{37, 19, true, false, {4, 8}}, LinearCase{1, 1, false, false, {}},
                      LinearCase{33, 50, false, true, {7, 0}}, LinearCase{2304, 70, true, false, {}},
                      LinearCase{4101, 9, false, true, {}}, LinearCase{515, 40, false, true, {}},
                      LinearCase{1300, 37, true, false, {0, 24}}, LinearCase{320, 96, true, true, {}, true},
                      LinearCase{2357, 21, true, false, {}, true}, LinearCase{47, 5, true, false, {}, true},
                      LinearCase{5152, 9, true, false, {}, true}, LinearCase{2624, 13, true, true, {0, 0}, true},
                      LinearCase{192, 288, true, false, {}, true, true}, LinearCase{72, 40, true, true, {}, true, true},
                      LinearCase{200, 288, true, false, {}, true, true, true},
                      LinearCase{320, 320, true, false, {}, true, true, true},
                      LinearCase{320, 96, true, true, {}, false, false, false, true},
                      LinearCase{2357, 21, true, false, {}, false, false, false, true}));

} // namespace
