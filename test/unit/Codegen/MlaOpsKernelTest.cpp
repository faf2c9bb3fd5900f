//===- MlaOpsKernelTest.cpp - MLA ops by emitter and by decomposition ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Mla.h"
#include "test/unit/Codegen/KernelHarness.h"

using namespace k3;
using namespace k3::test;

namespace {

struct MlaCase {
  Index heads, latent, rope, nope, value, page;
  bool bf16Cache, bf16Norm = false;
};
class Mla : public ::testing::TestWithParam<MlaCase> {
protected:
  ref::MlaShape shape(Index tokens) const {
    MlaCase c = GetParam();
    return {tokens, c.heads, c.latent, c.rope, c.nope, c.value, c.page};
  }
};

// f32 sums of up to some hundred terms; the softmax turns the error of a score into a relative error of its weight.
constexpr double tolerance = 5e-6;
// A value rounded to bf16 keeps 8 bits.
constexpr double bf16Tolerance = 1.0 / 256;

/// Sequences in the middle of their lives: new tokens on top of `lengths`, pages in any order.
struct Batch {
  std::vector<std::int32_t> cu, lengths, table;
  Index sequences, pagesPerSequence, pages, tokens;
  ref::MlaBatch view() const { return {cu, lengths, table}; }
};

Batch makeBatch(Random &random, const std::vector<Index> &newTokens, Index longest, Index page) {
  Batch b;
  b.sequences = static_cast<Index>(newTokens.size());
  b.cu = cumulate(newTokens);
  b.tokens = b.cu.back();
  Index most = longest;
  for (Index tokens : newTokens)
    most = std::max(most, longest + tokens);
  b.pagesPerSequence = std::max<Index>(1, (most + page - 1) / page);
  b.pages = b.sequences * b.pagesPerSequence + 1;
  for (Index n = 0; n < b.sequences; ++n)
    b.lengths.push_back(static_cast<std::int32_t>(random.integer(0, longest)));
  b.table = random.distinct(b.sequences * b.pagesPerSequence, b.pages);
  return b;
}

const std::vector<std::vector<Index>> batches = {{}, {1}, {1, 1, 1}, {5}, {3, 0, 9}, {17, 2}};

TEST_P(Mla, Append) {
  MlaCase c = GetParam();
  Index width = c.latent + c.rope;
  Random random(1);
  Array norm = Array::floats(c.bf16Norm, {c.latent}, random.normal(c.latent));
  auto cacheOf = [&](const Batch &b) {
    return Array::floats(c.bf16Cache, {b.pages, c.page, width}, random.normal(b.pages * c.page * width));
  };
  for (const CompileOptions &way : allWays()) {
    Batch b0 = makeBatch(random, {1}, 3, c.page);
    KernelSpec spec("k3.mla.append");
    spec.in(Array::f32({1, width}, random.normal(width)), {0}).in(norm).in(Array::i32({2}, b0.cu), {0});
    spec.in(Array::i32({1}, b0.lengths), {0}).in(Array::i32({1, b0.pagesPerSequence}, b0.table), {0, 1});
    spec.out(cacheOf(b0), {0}).attr("eps = 1.0e-6 : f64");
    auto kernel = spec.compile(way);
    ASSERT_TRUE(kernel);
    for (const auto &newTokens : batches) {
      Batch b = makeBatch(random, newTokens, 2 * c.page + 1, c.page);
      Array kv = Array::f32({b.tokens, width}, random.normal(b.tokens * width)), cache = cacheOf(b);
      Vec expected = cache.values();
      ref::mlaAppend(kv.values(), norm.values(), 1e-6, b.view(), expected, shape(b.tokens));
      kernel->run({kv, norm, Array::i32({b.sequences + 1}, b.cu), Array::i32({b.sequences}, b.lengths),
                   Array::i32({b.sequences, b.pagesPerSequence}, b.table), cache});
      EXPECT_TRUE(isClose(cache, expected, c.bf16Cache ? bf16Tolerance : tolerance)) << way;
    }
  }
}

TEST_P(Mla, Absorb) {
  MlaCase c = GetParam();
  Random random(2);
  Array weight = Array::bf16({c.heads, c.nope + c.value, c.latent}, random.normal(c.heads * (c.nope + c.value) * c.latent));
  auto make = [&](Index tokens) {
    return Array::f32({tokens, c.heads, c.nope + c.rope}, random.normal(tokens * c.heads * (c.nope + c.rope)));
  };
  for (const CompileOptions &way : allWays()) {
    KernelSpec spec("k3.mla.absorb");
    spec.in(make(1), {0}).in(weight).out(Array::undefined("f32", {1, c.heads, c.latent + c.rope}), {0});
    auto kernel = spec.attr("nope = " + std::to_string(c.nope) + " : i64").compile(way);
    ASSERT_TRUE(kernel);
    for (Index tokens : {0, 1, 5, 19}) {
      Array q = make(tokens), out = Array::undefined("f32", {tokens, c.heads, c.latent + c.rope});
      kernel->run({q, weight, out});
      EXPECT_TRUE(isClose(out, ref::mlaAbsorb(q.values(), weight.values(), shape(tokens)), tolerance))
          << way << ", " << tokens << " tokens";
    }
  }
}

TEST_P(Mla, Attend) {
  MlaCase c = GetParam();
  Index width = c.latent + c.rope;
  Random random(3);
  auto cacheOf = [&](const Batch &b) {
    return Array::floats(c.bf16Cache, {b.pages, c.page, width}, random.normal(b.pages * c.page * width));
  };
  auto queries = [&](Index tokens) {
    return Array::f32({tokens, c.heads, width}, random.normal(tokens * c.heads * width));
  };
  for (const CompileOptions &way : allWays()) {
    Batch b0 = makeBatch(random, {1}, 3, c.page);
    KernelSpec spec("k3.mla.attend");
    spec.in(queries(1), {0}).in(cacheOf(b0), {0}).in(Array::i32({2}, b0.cu), {0}).in(Array::i32({1}, b0.lengths), {0});
    spec.in(Array::i32({1, b0.pagesPerSequence}, b0.table), {0, 1});
    spec.out(Array::undefined("f32", {1, c.heads, c.latent}), {0}).attr("scale = 0.125 : f64");
    auto kernel = spec.compile(way);
    ASSERT_TRUE(kernel);
    for (const auto &newTokens : batches) {
      Batch b = makeBatch(random, newTokens, 3 * c.page + 1, c.page);
      Array q = queries(b.tokens), cache = cacheOf(b);
      Array out = Array::undefined("f32", {b.tokens, c.heads, c.latent});
      kernel->run({q, cache, Array::i32({b.sequences + 1}, b.cu), Array::i32({b.sequences}, b.lengths),
                   Array::i32({b.sequences, b.pagesPerSequence}, b.table), out});
      Vec expected = ref::mlaAttend(q.values(), cache.values(), 0.125, b.view(), shape(b.tokens));
      EXPECT_TRUE(isClose(out, expected, tolerance)) << way << ", " << b.tokens << " tokens";
    }
  }
}

TEST_P(Mla, Expand) {
  MlaCase c = GetParam();
  Random random(4);
  Array weight = Array::bf16({c.heads, c.nope + c.value, c.latent}, random.normal(c.heads * (c.nope + c.value) * c.latent));
  auto make = [&](Index tokens) {
    return Array::f32({tokens, c.heads, c.latent}, random.normal(tokens * c.heads * c.latent));
  };
  for (bool bf16 : resultTypes())
    for (const CompileOptions &way : allWays()) {
      const char *outType = bf16 ? "bf16" : "f32";
      KernelSpec spec("k3.mla.expand");
      spec.in(make(1), {0}).in(weight).out(Array::undefined(outType, {1, c.heads, c.value}), {0});
      auto kernel = spec.attr("nope = " + std::to_string(c.nope) + " : i64").compile(way);
      ASSERT_TRUE(kernel);
      for (Index tokens : {0, 1, 5, 19}) {
        Array x = make(tokens), out = Array::undefined(outType, {tokens, c.heads, c.value});
        kernel->run({x, weight, out});
        Vec expected = ref::mlaExpand(x.values(), weight.values(), shape(tokens));
        EXPECT_TRUE(isClose(out, expected, tolerateStored(bf16, tolerance))) << way << ", " << tokens << " tokens";
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Mla,
                         ::testing::Values(MlaCase{3, 64, 16, 32, 48, 8, false}, MlaCase{2, 37, 5, 7, 11, 3, true},
                                           MlaCase{1, 512, 64, 128, 128, 64, true, true}));

} // namespace
