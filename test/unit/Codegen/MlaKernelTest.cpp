//===- MlaKernelTest.cpp - compiled latent attention against the reference ===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Mla.h"
#include "test/unit/Codegen/KernelHarness.h"

using namespace k3;
using namespace k3::test;

namespace {

struct AttendCase {
  Index heads, latent, rope, page;
  bool bf16;
  double size; ///< of queries: large ones make scores far apart
};

class AttendKernel : public ::testing::TestWithParam<AttendCase> {};

// f32 against f64: scores are sums of latent + rope products of order `size`, exp turns their absolute error into a
// relative one.
double tolerance(const AttendCase &c) { return 2e-6 * std::max(1.0, c.size * 4); }

void check(const AttendCase &c, const CompileOptions &options) {
  Index row = c.latent + c.rope;
  constexpr Index maxPages = 5;
  KernelSpec spec("k3.mla.attend");
  auto i32 = [](Shape shape) { return Array::undefined("i32", std::move(shape)); };
  spec.in(Array::undefined("f32", {1, c.heads, row}), {0});
  spec.in(Array::undefined(c.bf16 ? "bf16" : "f32", {1, c.page, row}), {0});
  spec.in(i32({2}), {0}).in(i32({1}), {0}).in(i32({1, 1}), {0, 1});
  spec.out(Array::undefined("f32", {1, c.heads, c.latent}), {0});
  spec.attr("scale = 0.125 : f64");
  auto kernel = spec.compile(options);
  if (!kernel)
    return;
  Random random(5);
  struct Row {
    Index before, tokens;
  };
  for (const std::vector<Row> &rows :
       {std::vector<Row>{}, {{0, 1}}, {{0, 3}}, {{c.page - 1, 2}}, {{2 * c.page + 1, 1}, {0, 0}, {5, 4}},
        {{c.page, 1}, {0, 2 * c.page + 3}}}) {
    std::vector<std::int32_t> cu{0}, lengths, table;
    std::int32_t nextPage = 1;
    Index pool = 2 + maxPages * static_cast<Index>(rows.size());
    Vec cache(pool * c.page * row, std::nan("")); // rows outside every context are never read
    Vec values = random.normal(pool * c.page * row);
    for (Row r : rows) {
      cu.push_back(cu.back() + static_cast<std::int32_t>(r.tokens));
      lengths.push_back(static_cast<std::int32_t>(r.before));
      for (Index p = 0; p < maxPages; ++p) {
        Index first = p * c.page;
        bool used = first < r.before + r.tokens;
        table.push_back(used ? nextPage : -1);
        for (Index s = 0; used && s < c.page && first + s < r.before + r.tokens; ++s)
          for (Index j = 0; j < row; ++j)
            cache[(nextPage * c.page + s) * row + j] = values[(nextPage * c.page + s) * row + j];
        nextPage += used;
      }
    }
    Index n = static_cast<Index>(rows.size()), tokens = cu.back();
    Array q = Array::f32({tokens, c.heads, row}, random.normal(tokens * c.heads * row, c.size));
    Array pages = Array::floats(c.bf16, {pool, c.page, row}, cache);
    Array out = Array::undefined("f32", {tokens, c.heads, c.latent});
    kernel->run({q, pages, Array::i32({n + 1}, cu), Array::i32({n}, lengths), Array::i32({n, maxPages}, table), out});
    ref::MlaShape shape{tokens, c.heads, c.latent, c.rope, 0, 0, c.page};
    Vec expected = ref::mlaAttend(q.values(), pages.values(), 0.125, {cu, lengths, table}, shape);
    EXPECT_TRUE(isClose(out, expected, tolerance(c))) << n << " sequences, " << tokens << " rows";
  }
}

TEST_P(AttendKernel, MatchesReference) {
  for (const std::string &target : runnableTargets())
    check(GetParam(), {target, false, {}});
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttendKernel,
                         ::testing::Values(AttendCase{4, 96, 32, 64, false, 1}, AttendCase{3, 64, 16, 16, false, 1},
                                           AttendCase{6, 512, 64, 64, true, 1}, AttendCase{1, 19, 5, 7, false, 1},
                                           AttendCase{5, 40, 8, 8, false, 8}, AttendCase{20, 128, 32, 16, true, 1},
                                           AttendCase{5, 64, 16, 7, true, 8}, AttendCase{33, 64, 64, 32, true, 1}));

} // namespace
