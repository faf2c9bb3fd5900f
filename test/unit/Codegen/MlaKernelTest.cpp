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
  for (const std::vector<Row> &rows : {std::vector<Row>{},
                                       {{0, 1}},
                                       {{0, 3}},
                                       {{c.page - 1, 2}},
                                       {{2 * c.page + 1, 1}, {0, 0}, {5, 4}},
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

struct PartialCase {
  Index heads, latent, rope, page, tile, runs;
  bool bf16;
};

class PartialKernel : public ::testing::TestWithParam<PartialCase> {};

/// Sequences of one row each, by parts: what every run leaves, and what is made of it.
TEST_P(PartialKernel, MatchesReference) {
  PartialCase c = GetParam();
  Index row = c.latent + c.rope;
  for (const CompileOptions &way : allWays()) {
    auto i32 = [](Shape shape) { return Array::undefined("i32", std::move(shape)); };
    auto f32 = [](Shape shape) { return Array::undefined("f32", std::move(shape)); };
    Shape partShape{c.runs, 2, c.heads, c.latent}, stateShape{c.runs, 2, c.heads, 2};
    std::string tile = "tile = " + std::to_string(c.tile) + " : i64";
    KernelSpec partialSpec("k3.mla.attend_partial"), mergeSpec("k3.mla.attend_merge");
    partialSpec.in(f32({1, c.heads, row}), {0}).in(Array::undefined(c.bf16 ? "bf16" : "f32", {1, c.page, row}), {0});
    partialSpec.in(i32({1}), {0}).in(i32({1, 1}), {0, 1}).out(f32({1, c.heads, c.latent}), {0});
    partialSpec.out(f32(partShape)).out(f32(stateShape)).attr("scale = 0.125 : f64").attr(tile);
    mergeSpec.in(f32(partShape)).in(f32(stateShape)).in(i32({1}), {0}).out(f32({1, c.heads, c.latent}), {0}).attr(tile);
    auto partial = partialSpec.compile(way), merge = mergeSpec.compile(way);
    ASSERT_TRUE(partial && merge);
    Random random(6);
    std::vector<std::int32_t> many;
    for (int n = 0; n < 45; ++n)
      many.push_back(static_cast<std::int32_t>(random.integer(0, 2 * c.tile + 3)));
    auto long_ = static_cast<std::int32_t>(c.tile * c.runs * 2 + 1);
    for (const std::vector<std::int32_t> &lengths :
         {std::vector<std::int32_t>{}, {0}, {5}, {long_}, {long_, 0, 1}, {3, long_ / 2, long_ / 3, 0}, many}) {
      Index n = static_cast<Index>(lengths.size()), longest = 0;
      for (std::int32_t length : lengths)
        longest = std::max<Index>(longest, length + 1);
      Index pages = std::max<Index>(1, (longest + c.page - 1) / c.page), pool = n * pages + 1;
      std::vector<std::int32_t> table = random.distinct(n * pages, pool);
      Array q = Array::f32({n, c.heads, row}, random.normal(n * c.heads * row));
      Array cache = Array::floats(c.bf16, {pool, c.page, row}, random.normal(pool * c.page * row));
      Array lengthArray = Array::i32({n}, lengths), tableArray = Array::i32({n, pages}, table);
      Array out = f32({n, c.heads, c.latent}), parts = f32(partShape), states = f32(stateShape);
      partial->run({q, cache, lengthArray, tableArray, out, parts, states});
      ref::MlaShape shape{n, c.heads, c.latent, c.rope, 0, 0, c.page};
      ref::AttendParts expected =
          ref::mlaAttendPartial(q.values(), cache.values(), 0.125, lengths, table, c.tile, c.runs, shape);
      // What is undefined must stay as it was.
      EXPECT_TRUE(isClose(out, expected.out, 1e-5)) << way << ", " << n << " sequences";
      EXPECT_TRUE(isClose(parts, expected.parts, 1e-5)) << way << ", " << n << " sequences";
      EXPECT_TRUE(isClose(states, expected.states, 1e-5)) << way << ", " << n << " sequences";
      merge->run({parts, states, lengthArray, out});
      ref::mlaAttendMerge(expected.parts, expected.states, lengths, c.tile, c.runs, expected.out, shape);
      EXPECT_TRUE(isClose(out, expected.out, 1e-5)) << way << ", " << n << " sequences";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PartialKernel,
                         ::testing::Values(PartialCase{3, 64, 16, 16, 32, 5, true},
                                           PartialCase{20, 128, 64, 64, 32, 3, true},
                                           PartialCase{2, 20, 4, 7, 3, 4, false},
                                           PartialCase{1, 512, 64, 64, 32, 11, true},
                                           PartialCase{2, 64, 32, 8, 32, 1, true}));

} // namespace
