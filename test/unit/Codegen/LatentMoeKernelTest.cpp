//===- LatentMoeKernelTest.cpp - compiled LatentMoE ops against the reference ===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"
#include "lib/Reference/LatentMoe.h"
#include "lib/Reference/MxFp4.h"
#include "test/unit/Codegen/KernelHarness.h"

#include <cmath>
#include <numeric>
#include <sstream>

using namespace k3;
using namespace k3::test;

namespace {

struct ExpertCase {
  std::string weight; ///< "mxfp4", "bf16" or "f32"
  bool fused, situ, perSlot, table;
  Index experts, topK, k, n;
  bool bf16Inputs = false;
  /// x is bf16 in memory, as only GPUs have it.
  bool bf16Stored = false;
  /// On a GPU x is the sum of two bf16.
  bool twoTerms = false;
  /// The result is bf16 in memory, as only GPUs have it.
  bool bf16Result = false;
};

constexpr const char *bf16IsForGpus =
    "no kernel of a CPU has activations in bf16 in memory: runs where K3_SIMULATE_GPU or K3_EXPORT_CASES is set, and as a "
    "case of scripts/gpu/check.sh";

class GroupedContract : public ::testing::TestWithParam<ExpertCase> {};

/// The matrices of all experts, as arrays and as the values they stand for.
struct Experts {
  Array weight, scale;
  std::vector<Vec> values;
};

Experts makeExperts(Random &random, const ExpertCase &c, bool table) {
  std::vector<Array> weights, scales;
  std::vector<Vec> values;
  std::vector<std::uint8_t> allCodes, allScales;
  Vec all;
  for (Index e = 0; e < c.experts; ++e) {
    if (c.weight == "mxfp4") {
      auto codes = random.bytes(c.n * c.k / 2), exponents = random.bytes(c.n * c.k / 32, 118, 130);
      values.push_back(ref::dequantMxFp4(codes.data(), exponents.data(), c.n, c.k));
      allCodes.insert(allCodes.end(), codes.begin(), codes.end());
      allScales.insert(allScales.end(), exponents.begin(), exponents.end());
      weights.push_back(Array::i8({c.n, c.k / 2}, codes));
      scales.push_back(Array::i8({c.n, c.k / 32}, exponents));
    } else {
      weights.push_back(Array::floats(c.weight == "bf16", {c.n, c.k}, random.normal(c.n * c.k)));
      values.push_back(weights.back().values());
      all.insert(all.end(), values.back().begin(), values.back().end());
    }
  }
  if (c.weight == "mxfp4")
    return table ? Experts{Array::table(weights), Array::table(scales), values}
                 : Experts{Array::i8({c.experts, c.n, c.k / 2}, allCodes),
                           Array::i8({c.experts, c.n, c.k / 32}, allScales), values};
  Array none = Array::undefined("i8", {0});
  return {table ? Array::table(weights) : Array::floats(c.weight == "bf16", {c.experts, c.n, c.k}, all), none, values};
}

/// Expert ids of every slot, distinct within a token.
std::vector<std::int32_t> routeSlots(Random &random, const ExpertCase &c, Index tokens, int pattern) {
  std::vector<std::int32_t> ids;
  for (Index t = 0; t < tokens; ++t)
    for (Index i = 0; i < c.topK; ++i)
      switch (pattern) {
      case 0: // anywhere; some experts stay empty
        ids.push_back(static_cast<std::int32_t>((random.integer(0, c.experts - 1) / c.topK * c.topK + i) % c.experts));
        break;
      default: // every token on the same experts
        ids.push_back(static_cast<std::int32_t>(c.experts - 1 - i));
      }
  return ids;
}

// f32 sums of up to some hundred terms.
constexpr double tolerance = 3e-6;
// Of rounded inputs, whose products a GPU's tensor cores add up without rounding: k / 16 instructions in a row.
constexpr double roundedTolerance = 1e-5;
// Of inputs that are sums of two bf16: 16 of 24 bits.
constexpr double twoTermsTolerance = 1.0 / (1 << 16);
// The gated units saturate: an error of products in the hundreds, more so without FMA, meets outputs that are bounded or
// small.
constexpr double gatedTolerance = 2e-5;

void check(const ExpertCase &c, const CompileOptions &options) {
  Random random(static_cast<unsigned>(c.k * 7 + c.n * 3 + c.fused));
  Experts gate = makeExperts(random, c, c.table), up = makeExperts(random, c, c.table);
  auto shapeOfX = [&](Index tokens) { return c.perSlot ? Shape{tokens, c.topK, c.k} : Shape{tokens, c.k}; };
  Index rowsPerToken = c.perSlot ? c.topK : 1;
  auto plan = [&](Index tokens, int pattern) {
    auto ids = routeSlots(random, c, tokens, pattern);
    return ref::planExperts(ids, c.experts);
  };
  auto makeInput = [&](Index tokens) {
    return Array::floats(c.bf16Stored, shapeOfX(tokens), random.normal(tokens * rowsPerToken * c.k));
  };
  auto makeOut = [&](Index tokens) { return Array::undefined(c.bf16Result ? "bf16" : "f32", {tokens, c.topK, c.n}); };
  KernelSpec spec("k3.latent_moe.grouped_contract");
  auto describe = [&](const Array &x, const ref::MoePlan &p, const Array &out) {
    return std::vector<Array>{x, Array::i32({c.experts + 1}, p.offsets), Array::i32({out.shape()[0], c.topK}, p.perm),
                              gate.weight};
  };
  {
    Array x = makeInput(2);
    auto arrays = describe(x, plan(2, 0), makeOut(2));
    spec.in(arrays[0], {0}).in(arrays[1]).in(arrays[2], {0}).in(gate.weight);
    if (c.weight == "mxfp4")
      spec.optional("scale", gate.scale);
    if (c.fused)
      spec.optional("up_weight", up.weight);
    if (c.fused && c.weight == "mxfp4")
      spec.optional("up_scale", up.scale);
    spec.out(makeOut(2), {0});
    if (c.fused)
      spec.attr(c.situ ? "activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64"
                       : "activation = #k3.activation<swiglu>");
    if (c.bf16Inputs)
      spec.attr("bf16_x");
    if (c.twoTerms)
      spec.xTerms(2);
  }
  auto kernel = spec.compile(options);
  if (!kernel)
    return;
  std::vector<Index> counts{0, 1, 2, 7, 21};
  if (c.k % 64 == 0 && c.n % 64 == 0) // where GPUs take many rows of an expert at once
    counts.insert(counts.end(), {90, 300});
  for (Index tokens : counts)
    for (int pattern : {0, 1}) {
      Array x = makeInput(tokens);
      ref::MoePlan p = plan(tokens, pattern);
      Array out = makeOut(tokens);
      auto arrays = describe(x, p, out);
      if (c.weight == "mxfp4")
        arrays.push_back(gate.scale);
      if (c.fused)
        arrays.push_back(up.weight);
      if (c.fused && c.weight == "mxfp4")
        arrays.push_back(up.scale);
      arrays.push_back(out);
      kernel->run(arrays);

      auto product = [&](const Experts &experts) {
        std::vector<ref::View> views(experts.values.begin(), experts.values.end());
        Vec inputs = c.bf16Inputs ? Array::bf16(x.shape(), x.values()).values() : x.values();
        return ref::groupedContract(inputs, p, views, c.topK, c.k, c.n);
      };
      Vec expected = product(gate);
      if (c.fused)
        expected =
            ref::glu(expected, product(up), {c.situ ? ref::Activation::Situ : ref::Activation::SwiGlu, 4.0, 25.0});
      double ofProducts = c.twoTerms                       ? tolerate(tolerance, twoTermsTolerance)
                          : c.bf16Inputs || c.bf16Stored ? tolerate(tolerance, roundedTolerance)
                                                         : tolerance;
      EXPECT_TRUE(isClose(out, expected, tolerateStored(c.bf16Result, c.fused ? gatedTolerance : ofProducts)))
          << options << ", " << tokens << " tokens, pattern " << pattern;
    }
}

TEST_P(GroupedContract, MatchesReference) {
  if ((GetParam().bf16Stored || GetParam().bf16Result) && !forGpu())
    GTEST_SKIP() << bf16IsForGpus;
  for (const CompileOptions &way : allWays())
    if (!GetParam().table || !way.forceGeneric) // a table of pointers needs the emitter
      check(GetParam(), way);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GroupedContract,
    ::testing::Values(ExpertCase{"mxfp4", true, true, false, true, 6, 2, 96, 24},
                      ExpertCase{"mxfp4", false, false, true, true, 6, 2, 64, 17},
                      ExpertCase{"mxfp4", true, false, false, false, 5, 3, 32, 7},
                      ExpertCase{"bf16", true, false, false, true, 8, 4, 50, 33},
                      ExpertCase{"bf16", false, false, true, false, 4, 1, 128, 9},
                      ExpertCase{"f32", true, true, false, true, 7, 2, 19, 5},
                      ExpertCase{"mxfp4", true, true, false, false, 5, 2, 160, 9, true},
                      ExpertCase{"mxfp4", true, true, false, true, 7, 3, 192, 128},
                      ExpertCase{"mxfp4", true, true, false, true, 7, 3, 192, 128, true, true},
                      ExpertCase{"mxfp4", false, false, true, true, 5, 2, 128, 256, true},
                      ExpertCase{"mxfp4", false, false, true, false, 4, 2, 320, 128},
                      ExpertCase{"bf16", true, false, false, true, 5, 2, 64, 128, true},
                      ExpertCase{"bf16", true, false, false, false, 4, 2, 128, 128, true, true},
                      ExpertCase{"bf16", false, false, true, true, 3, 1, 192, 256},
                      ExpertCase{"bf16", false, false, true, false, 4, 1, 128, 9, true},
                      ExpertCase{"mxfp4", false, false, true, true, 5, 2, 128, 256, false, false, true},
                      ExpertCase{"bf16", false, false, true, true, 3, 1, 192, 256, false, false, true},
                      // As models have them whose products round their inputs.
                      ExpertCase{"mxfp4", true, true, false, true, 7, 3, 192, 128, true, true, false, true},
                      ExpertCase{"mxfp4", false, false, true, true, 5, 2, 192, 256, true, true},
                      ExpertCase{"bf16", true, false, false, true, 4, 2, 384, 128, true, false, false, true},
                      ExpertCase{"bf16", false, false, true, true, 3, 1, 384, 256, true, true},
                      ExpertCase{"bf16", true, false, false, true, 4, 2, 192, 128}));

//===----------------------------------------------------------------------===//
// The two products of experts as one op
//===----------------------------------------------------------------------===//

struct MlpCase {
  std::string weight;
  bool situ;
  Index experts, topK, dim, inner;
  bool bf16Inputs = false;
  /// Inner rows, and x, are bf16 in memory, as only GPUs have them.
  bool bf16Inner = false, bf16X = false;
};

class ExpertMlp : public ::testing::TestWithParam<MlpCase> {
protected:
  // Of inner rows, and of sums of them; what is rounded to bf16 on either side of a tie is 2^-8 of one of `inner` terms.
  double toleranceOfOut() const {
    const MlpCase &c = GetParam();
    return c.bf16Inputs ? 0.01 / std::sqrt(c.inner) : 4e-5;
  }
  double toleranceOfInner() const { return GetParam().bf16Inner ? 1.0 / 256 : gatedTolerance; }

  void check(const CompileOptions &options);
};

void ExpertMlp::check(const CompileOptions &options) {
  const MlpCase &c = GetParam();
  Random random(static_cast<unsigned>(c.dim * 7 + c.inner));
  ExpertCase first{c.weight, true, c.situ, false, true, c.experts, c.topK, c.dim, c.inner};
  ExpertCase second{c.weight, false, false, true, true, c.experts, c.topK, c.inner, c.dim};
  bool packed = c.weight == "mxfp4", table = !options.forceGeneric;
  Experts gate = makeExperts(random, first, table), up = makeExperts(random, first, table),
          down = makeExperts(random, second, table);
  struct Operands {
    Array x, offsets, perm, inner, out, progress;
  };
  auto make = [&](Index tokens, const ref::MoePlan &plan) {
    Shape slots{tokens, c.topK};
    return Operands{Array::floats(c.bf16X, {tokens, c.dim}, random.normal(tokens * c.dim)),
                    Array::i32({c.experts + 1}, plan.offsets),
                    Array::i32(slots, plan.perm),
                    Array::undefined(c.bf16Inner ? "bf16" : "f32", {tokens, c.topK, c.inner}),
                    Array::undefined("f32", {tokens, c.topK, c.dim}),
                    Array::i32(slots, std::vector<std::int32_t>(tokens * c.topK))};
  };
  auto plan = [&](Index tokens, int pattern) {
    return ref::planExperts(routeSlots(random, first, tokens, pattern), c.experts);
  };

  KernelSpec spec("k3.latent_moe.expert_mlp");
  Operands some = make(2, plan(2, 0));
  spec.in(some.x, {0}).in(some.offsets).in(some.perm, {0}).in(gate.weight).in(up.weight).in(down.weight);
  if (packed)
    spec.optional("scale", gate.scale).optional("up_scale", up.scale).optional("down_scale", down.scale);
  spec.out(some.inner, {0}).out(some.out, {0}).out(some.progress, {0});
  spec.attr(c.situ ? "activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64"
                   : "activation = #k3.activation<swiglu>");
  if (c.bf16Inputs)
    spec.attr("bf16_x");
  auto kernel = spec.compile(options);
  ASSERT_TRUE(kernel);
  for (Index tokens : {0, 1, 2, 7, 21})
    for (int pattern : {0, 1}) {
      ref::MoePlan p = plan(tokens, pattern);
      Operands o = make(tokens, p);
      std::vector<Array> arrays{o.x, o.offsets, o.perm, gate.weight, up.weight, down.weight};
      if (packed)
        arrays.insert(arrays.end(), {gate.scale, up.scale, down.scale});
      arrays.insert(arrays.end(), {o.inner, o.out, o.progress});
      kernel->run(arrays);

      auto viewsOf = [](const Experts &experts) {
        return std::vector<ref::View>(experts.values.begin(), experts.values.end());
      };
      auto rounded = [&](const Vec &x) { return c.bf16Inputs ? Array::bf16({Index(x.size())}, x).values() : x; };
      ref::ExpertRows expected =
          ref::expertMlp(rounded(o.x.values()), p, viewsOf(gate), viewsOf(up), viewsOf(down), c.topK, c.dim, c.inner,
                         {c.situ ? ref::Activation::Situ : ref::Activation::SwiGlu, 4.0, 25.0});
      if (c.bf16Inputs)
        expected.out = ref::groupedContract(rounded(expected.inner), p, viewsOf(down), c.topK, c.inner, c.dim);
      std::ostringstream where;
      where << options << ", " << tokens << " tokens, pattern " << pattern;
      EXPECT_TRUE(isClose(o.inner, expected.inner, toleranceOfInner())) << where.str();
      EXPECT_TRUE(isClose(o.out, expected.out, toleranceOfOut())) << where.str();
      // What is left in the counters is nobody's business.
      std::vector<std::int32_t> any(tokens * c.topK);
      EXPECT_TRUE(isEqual(o.progress, any, Mask(any.size(), false)));
    }
}

TEST_P(ExpertMlp, MatchesReference) {
  if ((GetParam().bf16X || GetParam().bf16Inner) && !forGpu())
    GTEST_SKIP() << bf16IsForGpus;
  for (const CompileOptions &way : allWays())
    if (way.forceGeneric || way.isForGpu()) // CPUs have no emitter for it
      check(way);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ExpertMlp,
                         ::testing::Values(MlpCase{"mxfp4", true, 6, 2, 96, 64}, MlpCase{"mxfp4", true, 5, 3, 160, 96},
                                           MlpCase{"mxfp4", true, 7, 3, 192, 128, true},
                                           MlpCase{"mxfp4", false, 5, 2, 512, 256, true, true, true},
                                           MlpCase{"bf16", false, 8, 4, 80, 48}, MlpCase{"bf16", false, 4, 1, 128, 64, true},
                                           MlpCase{"bf16", false, 4, 2, 64, 32, true, true},
                                           MlpCase{"bf16", false, 4, 2, 72, 32, true, true, true},
                                           // Tiles of the first product come in two pieces, those of the second in one.
                                           MlpCase{"bf16", true, 3, 2, 1344, 64}));

/// Every code with every scale, through the whole path from bytes to products.
void checkCodesAndScales(const CompileOptions &way, Index k) {
  // Row (scale, code) holds one code that is not zero, at a position that moves; the inputs are 1, 2 and 0.5
  // everywhere.
  constexpr Index rows = 256 * 16;
  std::vector<std::uint8_t> codes(rows * k / 2), scales;
  for (Index row = 0; row < rows; ++row) {
    Index code = row % 16, position = (row / 16 + 5 * code) % k;
    codes[row * k / 2 + position / 2] = static_cast<std::uint8_t>(code << (position % 2 * 4));
    for (Index group = 0; group < k / 32; ++group) // the other groups are 0 times 1
      scales.push_back(static_cast<std::uint8_t>(group == position / 32 ? row / 16 : 127));
  }
  Array weight = Array::i8({rows, k / 2}, codes), scale = Array::i8({rows, k / 32}, scales);
  const double factors[] = {1, 2, 0.5};
  Array x = Array::f32({1, k}, Vec(k, 1.0)), out = Array::undefined("f32", {1, rows});
  KernelSpec spec("k3.mx.contract");
  auto kernel = spec.in(x, {0}).in(weight).in(scale).out(out, {0}).compile(way);
  ASSERT_TRUE(kernel);
  for (Index tokens : {1, 3}) { // one input and several take different ways through the scales
    Vec inputs;
    for (Index t = 0; t < tokens; ++t)
      inputs.insert(inputs.end(), k, factors[t]);
    x = Array::f32({tokens, k}, inputs), out = Array::undefined("f32", {tokens, rows});
    kernel->run({x, weight, scale, out});
    Vec expected;
    Mask mask;
    for (Index t = 0; t < tokens; ++t)
      for (Index row = 0; row < rows; ++row) {
        double value = ref::decodeE2M1(row % 16), power = ref::decodeE8M0(static_cast<std::uint8_t>(row / 16));
        float want = static_cast<float>(value * power); // overflows to infinity as the product does
        expected.push_back(want * factors[t]);
        // The inputs' small terms are 0 on a GPU, and 0 times infinity is NaN.
        bool countsOnGpu = !std::isinf(want) || (!simulating() && !exporting());
        mask.push_back(countsOnGpu && (std::isnan(want) || factors[t] == 1 ||
                                       (std::isfinite(want * 2) && std::abs(want) > 1e-37)));
      }
    EXPECT_TRUE(isEqual(out, expected, mask)) << way << ", k " << k << ", rows are scale * 16 + code";
  }
}

TEST(MxContract, DecodesAllCodesAndScales) {
  for (const CompileOptions &way : allWays())
    for (Index k : {32, 64}) // GPUs take pieces of 64 where there are many rows
      checkCodesAndScales(way, k);
}

struct MxCase {
  Index k, n;
  bool accumulate, bf16Inputs = false;
};
class MxContract : public ::testing::TestWithParam<MxCase> {};

TEST_P(MxContract, MatchesReference) {
  MxCase c = GetParam();
  Random random(5);
  auto codes = random.bytes(c.n * c.k / 2), scales = random.bytes(c.n * c.k / 32, 120, 130);
  Array weight = Array::i8({c.n, c.k / 2}, codes), scale = Array::i8({c.n, c.k / 32}, scales);
  for (const CompileOptions &way : allWays()) {
    KernelSpec spec("k3.mx.contract");
    Array x0 = Array::f32({1, c.k}, random.normal(c.k));
    spec.in(x0, {0}).in(weight).in(scale).out(Array::undefined("f32", {1, c.n}), {0});
    if (c.accumulate)
      spec.attr("accumulate");
    if (c.bf16Inputs)
      spec.attr("bf16_x");
    auto kernel = spec.compile(way);
    ASSERT_TRUE(kernel);
    for (Index rows : {0, 1, 3, 9, 65}) {
      Array x = Array::f32({rows, c.k}, random.normal(rows * c.k));
      Vec old = random.normal(rows * c.n);
      Array out = c.accumulate ? Array::f32({rows, c.n}, old) : Array::undefined("f32", {rows, c.n});
      kernel->run({x, weight, scale, out});
      Vec inputs = c.bf16Inputs ? Array::bf16({rows, c.k}, x.values()).values() : x.values();
      Vec expected = ref::mxLinear(inputs, codes.data(), scales.data(), rows, c.k, c.n);
      if (c.accumulate)
        expected = ref::add(expected, old);
      EXPECT_TRUE(isClose(out, expected, tolerance)) << way << ", " << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MxContract,
                         ::testing::Values(MxCase{32, 1, false}, MxCase{96, 37, true}, MxCase{2304, 16, false},
                                           MxCase{96, 37, true, true}, MxCase{128, 256, true},
                                           MxCase{192, 128, false, true}, MxCase{5120, 32, true}));

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

struct RouteCase {
  Index experts, topK;
  bool renormalize;
};
class Route : public ::testing::TestWithParam<RouteCase> {};

TEST_P(Route, MatchesReference) {
  RouteCase c = GetParam();
  Random random(11);
  Array bias = Array::f32({c.experts}, random.normal(c.experts, 0.1));
  for (const CompileOptions &way : allWays()) {
    auto make = [&](Index tokens) {
      // Equal logits too: ties go to the lower id.
      Vec logits = random.normal(tokens * c.experts);
      if (tokens > 1)
        std::fill_n(logits.begin(), c.experts, 0.5);
      return Array::f32({tokens, c.experts}, logits);
    };
    KernelSpec spec("k3.latent_moe.route");
    spec.in(make(1), {0}).in(bias).out(Array::undefined("i32", {1, c.topK}), {0});
    spec.out(Array::undefined("f32", {1, c.topK}), {0}).attr("scale = 2.5 : f64");
    spec.attr(c.renormalize ? "renormalize = true" : "renormalize = false");
    auto kernel = spec.compile(way);
    ASSERT_TRUE(kernel);
    for (Index tokens : {0, 1, 2, 9}) {
      Array logits = make(tokens);
      Array ids = Array::undefined("i32", {tokens, c.topK}), weights = Array::undefined("f32", {tokens, c.topK});
      kernel->run({logits, bias, ids, weights});
      ref::Routing expected =
          ref::route(logits.values(), bias.values(), tokens, {c.experts, c.topK, c.renormalize, 2.5});
      Mask mask;
      for (Index t = 0; t < tokens; ++t) // f32 scores cannot tell apart what is closer than this
        mask.insert(mask.end(), c.topK, expected.margin[t] > 1e-6 || t == 0);
      EXPECT_TRUE(isEqual(ids, expected.ids, mask)) << way;
      EXPECT_TRUE(isClose(weights, expected.weights, 2e-6)) << way;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Route,
                         ::testing::Values(RouteCase{8, 2, true}, RouteCase{37, 8, false}, RouteCase{5, 5, true},
                                           RouteCase{1, 1, true}));

TEST(MoePlan, MatchesReference) {
  Random random(3);
  for (std::pair<Index, Index> sizes : {std::pair<Index, Index>{8, 2}, {37, 8}, {1, 1}})
    for (const CompileOptions &way : allWays()) {
      Index experts = sizes.first, topK = sizes.second;
      auto make = [&](Index tokens, bool same) {
        std::vector<std::int32_t> ids;
        for (Index t = 0; t < tokens; ++t) {
          auto chosen = random.distinct(topK, experts);
          if (same)
            std::iota(chosen.begin(), chosen.end(), static_cast<std::int32_t>(experts - topK));
          ids.insert(ids.end(), chosen.begin(), chosen.end());
        }
        return Array::i32({tokens, topK}, ids);
      };
      for (bool counts : {false, true}) {
        KernelSpec spec("k3.latent_moe.plan");
        Array slots = Array::undefined("i32", {1, topK});
        spec.in(make(1, false), {0});
        if (counts)
          spec.optionalOut("progress", slots, {0});
        auto kernel = spec.out(Array::undefined("i32", {experts + 1})).out(slots, {0}).compile(way);
        ASSERT_TRUE(kernel);
        for (Index tokens : {0, 1, 5, 40})
          for (bool same : {false, true}) {
            Array ids = make(tokens, same), progress = Array::undefined("i32", {tokens, topK});
            Array offsets = Array::undefined("i32", {experts + 1}), perm = Array::undefined("i32", {tokens, topK});
            kernel->run(counts ? std::vector<Array>{ids, progress, offsets, perm}
                               : std::vector<Array>{ids, offsets, perm});
            ref::MoePlan expected = ref::planExperts(ids.ints(), experts);
            EXPECT_TRUE(isEqual(offsets, expected.offsets)) << way;
            EXPECT_TRUE(isEqual(perm, expected.perm)) << way;
            if (counts)
              EXPECT_TRUE(isEqual(progress, std::vector<std::int32_t>(tokens * topK))) << way;
          }
      }
    }
}

TEST(MoeCombine, MatchesReference) {
  Random random(4);
  for (bool accumulate : {false, true})
    for (auto [n, topK] : {std::pair<Index, Index>{48, 2}, {1030, 8}, {3, 1}})
      for (const CompileOptions &way : allWays()) {
        KernelSpec spec("k3.latent_moe.combine");
        Array y0 = Array::f32({1, topK, n}, random.normal(topK * n)), w0 = Array::f32({1, topK}, random.normal(topK));
        spec.in(y0, {0}).in(w0, {0}).out(Array::undefined("f32", {1, n}), {0});
        if (accumulate)
          spec.attr("accumulate");
        auto kernel = spec.compile(way);
        ASSERT_TRUE(kernel);
        for (Index tokens : {0, 1, 6}) {
          Array y = Array::f32({tokens, topK, n}, random.normal(tokens * topK * n));
          Array weights = Array::f32({tokens, topK}, random.normal(tokens * topK));
          Vec old = random.normal(tokens * n);
          Array out = accumulate ? Array::f32({tokens, n}, old) : Array::undefined("f32", {tokens, n});
          kernel->run({y, weights, out});
          Vec expected = ref::combine(y.values(), weights.values(), tokens, topK, n);
          if (accumulate)
            expected = ref::add(expected, old);
          EXPECT_TRUE(isClose(out, expected, 1e-6)) << way << ", " << tokens << " tokens";
        }
      }
}

} // namespace
