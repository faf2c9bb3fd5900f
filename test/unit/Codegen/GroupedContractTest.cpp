//===- GroupedContractTest.cpp - compiled routed experts and MXFP4 products -===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Common.h"
#include "lib/Reference/LatentMoe.h"
#include "lib/Reference/MxFp4.h"
#include "test/unit/Codegen/KernelHarness.h"

#include <cmath>
#include <numeric>

using namespace k3;
using namespace k3::test;
using Ints = std::vector<std::int32_t>;

namespace {

// f32 products and sums of k terms against fp64: about sqrt(k) half ulps of the size of a sum; 2e-6 of the largest
// output covers k up to some thousands with room.
constexpr double tolerance = 2e-6;

enum class Form { bf16, f32, mxfp4 };

/// One expert's matrix [n, k] as it is stored, and its values.
struct Matrix {
  Array weight = Array::undefined("f32", {0}), scale = Array::undefined("i8", {0});
  Vec values;
};

/// Sums of products with normal inputs come out about 1: where gated units are curved, and not so large that an
/// activation that saturates hides them.
Matrix makeMatrix(Random &random, Form form, Index n, Index k) {
  Matrix m;
  if (form == Form::mxfp4) {
    int typical = static_cast<int>(std::lround(127 - std::log2(2.5 * std::sqrt(k))));
    std::vector<std::uint8_t> packed = random.bytes(n * k / 2),
                              scale = random.bytes(n * k / 32, typical - 2, typical + 1);
    m.weight = Array::i8({n, k / 2}, packed);
    m.scale = Array::i8({n, k / 32}, scale);
    m.values = ref::dequantMxFp4(packed.data(), scale.data(), n, k);
  } else {
    m.weight = Array::floats(form == Form::bf16, {n, k}, random.normal(n * k, 1 / std::sqrt(k)));
    m.values = m.weight.values();
  }
  return m;
}

/// An expert that no row goes to: reading its weights shows.
Matrix poisonedMatrix(Form form, Index n, Index k) {
  Matrix m;
  bool packed = form == Form::mxfp4;
  m.weight = Array::undefined(packed ? "i8" : form == Form::bf16 ? "bf16" : "f32", {n, packed ? k / 2 : k});
  m.scale = Array::undefined("i8", {n, k / 32}); // all scales NaN
  m.values.assign(n * k, NAN);
  return m;
}

/// All experts' matrices as one operand: a table of pointers, or one dense array.
Array gather(const std::vector<Array> &members, bool table) {
  if (table)
    return Array::table(members);
  Shape shape = members[0].shape();
  shape.insert(shape.begin(), static_cast<Index>(members.size()));
  Array all = Array::undefined(members[0].dtype(), shape);
  auto *to = static_cast<unsigned char *>(all.data());
  for (const Array &member : members) {
    std::vector<unsigned char> bytes = member.bytes();
    to = std::copy(bytes.begin(), bytes.end(), to);
  }
  return all;
}

struct GroupedCase {
  Form form;
  Index experts, topK, k, n;
  bool perSlot, table;
  const char *activation; ///< or null: one matrix
  std::vector<Index> tiles;
  bool bf16Inputs = false;
};

std::ostream &operator<<(std::ostream &os, const GroupedCase &c) {
  return os << "form " << static_cast<int>(c.form) << ", E " << c.experts << ", top " << c.topK << ", k " << c.k
            << ", n " << c.n << (c.perSlot ? ", per slot" : "") << (c.table ? ", table" : "") << ' '
            << (c.activation ? c.activation : "");
}

class RoutedExperts : public ::testing::TestWithParam<GroupedCase> {
protected:
  /// Experts that `ids` names have weights, the others are poisoned.
  void makeExperts(const Ints &ids) {
    const GroupedCase &c = GetParam();
    gate.clear();
    up.clear();
    for (Index e = 0; e < c.experts; ++e) {
      bool used = std::count(ids.begin(), ids.end(), e) > 0;
      for (auto *group : {&gate, &up})
        group->push_back(used ? makeMatrix(random, c.form, c.n, c.k) : poisonedMatrix(c.form, c.n, c.k));
    }
  }

  static Array operand(const std::vector<Matrix> &group, Array Matrix::*part) {
    std::vector<Array> members;
    for (const Matrix &matrix : group)
      members.push_back(matrix.*part);
    return gather(members, GetParam().table);
  }

  std::vector<Array> operands(const Array &x, const ref::MoePlan &plan, const Array &out) const {
    const GroupedCase &c = GetParam();
    std::vector<Array> arrays{x, Array::i32({c.experts + 1}, plan.offsets),
                              Array::i32({x.shape()[0], c.topK}, plan.perm), operand(gate, &Matrix::weight)};
    if (c.form == Form::mxfp4)
      arrays.push_back(operand(gate, &Matrix::scale));
    if (c.activation) {
      arrays.push_back(operand(up, &Matrix::weight));
      if (c.form == Form::mxfp4)
        arrays.push_back(operand(up, &Matrix::scale));
    }
    arrays.push_back(out);
    return arrays;
  }

  std::unique_ptr<CompiledKernel> compile(const std::string &target) {
    const GroupedCase &c = GetParam();
    makeExperts({});
    std::vector<Array> arrays = operands(makeInput(1), {Ints(c.experts + 1), Ints(c.topK)}, makeOut(1));
    KernelSpec spec("k3.latent_moe.grouped_contract");
    spec.in(arrays[0], {0}).in(arrays[1]).in(arrays[2], {0}).in(arrays[3]);
    std::vector<std::string> names = c.form == Form::mxfp4 ? std::vector<std::string>{"scale", "up_weight", "up_scale"}
                                                           : std::vector<std::string>{"up_weight"};
    for (std::size_t i = 4; i + 1 < arrays.size(); ++i)
      spec.optional(names[i - 4], arrays[i]);
    spec.out(arrays.back(), {0});
    if (c.activation)
      spec.attr(std::string("activation = #k3.activation<") + c.activation + ">, beta = 4.0, linear_beta = 25.0");
    if (c.bf16Inputs)
      spec.attr("bf16_x");
    CompileOptions options;
    options.target = target;
    options.tiles = c.tiles;
    return spec.compile(options);
  }

  Array makeInput(Index tokens) {
    const GroupedCase &c = GetParam();
    Shape shape = c.perSlot ? Shape{tokens, c.topK, c.k} : Shape{tokens, c.k};
    Index size = std::accumulate(shape.begin(), shape.end(), Index(1), std::multiplies<>());
    return Array::f32(shape, random.normal(size));
  }
  Array makeOut(Index tokens) const { return Array::undefined("f32", {tokens, GetParam().topK, GetParam().n}); }

  Vec expect(const Array &x, const ref::MoePlan &plan) const {
    const GroupedCase &c = GetParam();
    auto product = [&](const std::vector<Matrix> &group) {
      std::vector<ref::View> views;
      for (const Matrix &matrix : group)
        views.push_back(matrix.values);
      Vec inputs = c.bf16Inputs ? Array::bf16(x.shape(), x.values()).values() : x.values();
      return ref::groupedContract(inputs, plan, views, c.topK, c.k, c.n);
    };
    Vec y = product(gate);
    if (!c.activation)
      return y;
    bool situ = std::string(c.activation) == "situ";
    return ref::glu(y, product(up), {situ ? ref::Activation::Situ : ref::Activation::SwiGlu, 4, 25});
  }

  /// Distinct experts for each token, from the first `used` ones.
  Ints route(Index tokens, Index used) {
    Ints ids, choice(used);
    std::iota(choice.begin(), choice.end(), 0);
    for (Index t = 0; t < tokens; ++t)
      for (Index i = 0; i < GetParam().topK; ++i) {
        std::swap(choice[i], choice[random.integer(i, used - 1)]);
        ids.push_back(choice[i]);
      }
    return ids;
  }

  Random random{7};
  std::vector<Matrix> gate, up;
};

TEST_P(RoutedExperts, MatchesReference) {
  const GroupedCase &c = GetParam();
  for (const std::string &target : runnableTargets()) {
    auto kernel = compile(target);
    ASSERT_TRUE(kernel);
    EXPECT_TRUE(kernel->isMadeBy(Way::emitter));
    for (Index tokens : {0, 1, 2, 3, 5, 21})
      for (Index used : {c.topK, c.experts}) { // topK: every token goes to the same experts
        Ints ids = route(tokens, used);
        ref::MoePlan plan = ref::planExperts(ids, c.experts);
        makeExperts(ids);
        Array x = makeInput(tokens), out = makeOut(tokens);
        kernel->run(operands(x, plan, out));
        EXPECT_TRUE(isClose(out, expect(x, plan), tolerance))
            << target << ", " << tokens << " tokens, " << used << " experts";
      }
  }
}

// Slots outside all ranges are neither read nor written.
TEST_P(RoutedExperts, LeavesOtherSlotsAlone) {
  const GroupedCase &c = GetParam();
  auto kernel = compile(runnableTargets().front());
  ASSERT_TRUE(kernel);
  const Index tokens = 6;
  Ints ids = route(tokens, c.experts);
  ref::MoePlan plan = ref::planExperts(ids, c.experts);
  makeExperts(ids);
  Array x = makeInput(tokens), out = makeOut(tokens);
  Vec expected = expect(x, plan);
  // Cut the first slots of the first and the last ones of the last expert off.
  Index first = plan.offsets[1], last = plan.offsets[c.experts - 1];
  for (std::int32_t &offset : plan.offsets)
    offset = std::clamp<std::int32_t>(offset, first, last);
  std::vector<bool> listed(tokens * c.topK);
  for (Index i = first; i < last; ++i)
    listed[plan.perm[i]] = true;
  if (c.perSlot)
    for (Index slot = 0; slot < tokens * c.topK; ++slot)
      if (!listed[slot])
        std::fill_n(static_cast<float *>(x.data()) + slot * c.k, c.k, NAN);
  kernel->run(operands(x, plan, out));
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!listed[i / c.n])
      expected[i] = NAN; // as it was
  EXPECT_TRUE(isClose(out, expected, tolerance));
}

INSTANTIATE_TEST_SUITE_P(Shapes, RoutedExperts,
                         ::testing::Values(GroupedCase{Form::mxfp4, 7, 3, 96, 40, false, true, "situ", {16}},
                                           GroupedCase{Form::mxfp4, 5, 2, 160, 33, true, true, nullptr, {}},
                                           GroupedCase{Form::mxfp4, 4, 1, 32, 16, false, false, nullptr, {0}},
                                           GroupedCase{Form::mxfp4, 3, 2, 1024, 7, false, false, "swiglu", {}},
                                           GroupedCase{Form::mxfp4, 7, 3, 192, 40, false, true, "situ", {16}},
                                           GroupedCase{Form::mxfp4, 4, 2, 672, 21, true, true, nullptr, {}},
                                           GroupedCase{Form::mxfp4, 5, 2, 384, 40, true, true, nullptr, {16}},
                                           GroupedCase{Form::mxfp4, 4, 2, 640, 35, false, true, "situ", {}},
                                           GroupedCase{Form::mxfp4, 4, 2, 640, 35, false, false, "swiglu", {}, true},
                                           GroupedCase{Form::mxfp4, 4, 2, 928, 21, true, true, nullptr, {}},
                                           GroupedCase{Form::mxfp4, 4, 2, 1120, 21, true, true, nullptr, {}},
                                           GroupedCase{Form::mxfp4, 3, 2, 1280, 35, false, true, "situ", {}},
                                           GroupedCase{Form::mxfp4, 6, 2, 288, 18, false, true, "situ", {}, true},
                                           GroupedCase{Form::mxfp4, 7, 3, 96, 40, false, true, "situ", {16}, true},
                                           GroupedCase{Form::mxfp4, 5, 2, 160, 33, true, true, nullptr, {}, true},
                                           GroupedCase{Form::mxfp4, 3, 2, 1024, 7, false, false, "swiglu", {}, true},
                                           GroupedCase{Form::bf16, 7, 3, 96, 40, false, true, "swiglu", {16}},
                                           GroupedCase{Form::bf16, 5, 2, 37, 33, true, true, nullptr, {}},
                                           GroupedCase{Form::bf16, 3, 2, 5, 3, false, false, "situ", {2}},
                                           GroupedCase{Form::bf16, 7, 3, 96, 40, false, true, "swiglu", {16}, true},
                                           GroupedCase{Form::bf16, 5, 2, 37, 33, true, true, nullptr, {}, true},
                                           GroupedCase{Form::f32, 6, 2, 50, 19, false, true, "situ", {}},
                                           GroupedCase{Form::f32, 4, 2, 64, 32, true, false, nullptr, {24}}));

//===----------------------------------------------------------------------===//
// k3.mx.contract
//===----------------------------------------------------------------------===//

struct MxCase {
  Index k, n;
  bool accumulate;
  std::vector<Index> tiles;
  bool bf16Inputs = false;
};

class MxProducts : public ::testing::TestWithParam<MxCase> {};

TEST_P(MxProducts, MatchesReference) {
  const MxCase &c = GetParam();
  Random random(static_cast<unsigned>(c.k + c.n));
  std::vector<std::uint8_t> packed = random.bytes(c.n * c.k / 2), scale = random.bytes(c.n * c.k / 32, 120, 131);
  Array weight = Array::i8({c.n, c.k / 2}, packed), scales = Array::i8({c.n, c.k / 32}, scale);
  for (const std::string &target : runnableTargets()) {
    KernelSpec spec("k3.mx.contract");
    spec.in(Array::undefined("f32", {1, c.k}), {0}).in(weight).in(scales).out(Array::undefined("f32", {1, c.n}), {0});
    if (c.accumulate)
      spec.attr("accumulate");
    if (c.bf16Inputs)
      spec.attr("bf16_x");
    CompileOptions options;
    options.target = target;
    options.tiles = c.tiles;
    auto kernel = spec.compile(options);
    ASSERT_TRUE(kernel);
    EXPECT_TRUE(kernel->isMadeBy(Way::emitter));
    for (Index rows : {0, 1, 2, 3, 7, 8, 66}) {
      Array x = Array::f32({rows, c.k}, random.normal(rows * c.k));
      Vec old = random.normal(rows * c.n);
      Array out = c.accumulate ? Array::f32({rows, c.n}, old) : Array::undefined("f32", {rows, c.n});
      kernel->run({x, weight, scales, out});
      Vec inputs = c.bf16Inputs ? Array::bf16({rows, c.k}, x.values()).values() : x.values();
      Vec expected = ref::mxLinear(inputs, packed.data(), scale.data(), rows, c.k, c.n);
      if (c.accumulate)
        expected = ref::add(expected, old);
      EXPECT_TRUE(isClose(out, expected, tolerance)) << target << ", " << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MxProducts,
                         ::testing::Values(MxCase{32, 1, false, {}}, MxCase{96, 50, true, {7, 16}},
                                           MxCase{2048, 35, false, {}}, MxCase{2080, 35, true, {}}, MxCase{64, 24, true, {0, 10}},
                                           MxCase{96, 50, true, {7, 16}, true}, MxCase{2080, 35, false, {}, true}));

struct CodesCase {
  Index k;
  bool bf16Inputs;
};

class MxCodes : public ::testing::TestWithParam<CodesCase> {};

// Every code with every scale, at even and at odd places, through the code for one and for many input rows, for short and
// for long weight rows, with inputs as they are and rounded to bf16.
TEST_P(MxCodes, DecodesEveryCodeExactly) {
  const Index k = GetParam().k, n = 256, groups = k / 32;
  std::vector<std::uint8_t> packed(n * k / 2), scale(n * groups);
  for (Index row = 0; row < n; ++row) {
    std::fill_n(scale.begin() + row * groups, groups, static_cast<std::uint8_t>(row));
    // What f32 cannot hold stays out: times 2^126 the codes 6 and 7, times 2^127 those from 4 on.
    auto code = [&](Index i) {
      Index code = i % 16, most = row == 253 ? 5 : row == 254 ? 3 : 7;
      return code % 8 <= most ? code : 0;
    };
    for (Index j = 0; j < k / 2; ++j) // elements 0 to 15 hold the codes rising, the next 16 shifted by one, and so on
      packed[row * k / 2 + j] = static_cast<std::uint8_t>(code(2 * j + 2 * j / 16) | code(2 * j + 1 + 2 * j / 16) << 4);
  }
  Vec values = ref::dequantMxFp4(packed.data(), scale.data(), n, k);
  Array weight = Array::i8({n, k / 2}, packed), scales = Array::i8({n, groups}, scale);
  for (const std::string &target : runnableTargets()) {
    KernelSpec spec("k3.mx.contract");
    spec.in(Array::undefined("f32", {1, k}), {0}).in(weight).in(scales).out(Array::undefined("f32", {1, n}), {0});
    if (GetParam().bf16Inputs)
      spec.attr("bf16_x");
    CompileOptions options;
    options.target = target;
    auto kernel = spec.compile(options);
    ASSERT_TRUE(kernel);
    auto check = [&](Index first, Index rows) { // rows of the unit matrix pick one weight each
      Vec units(rows * k);
      for (Index r = 0; r < rows; ++r)
        units[r * k + first + r] = 1;
      Array x = Array::f32({rows, k}, units), out = Array::undefined("f32", {rows, n});
      kernel->run({x, weight, scales, out});
      Vec expected;
      for (Index r = 0; r < rows; ++r)
        for (Index row = 0; row < n; ++row)
          expected.push_back(row == 255 ? NAN : values[row * k + first + r]);
      EXPECT_TRUE(isEqual(out, expected)) << target << ", elements from " << first << " on; rows are scales";
    };
    check(0, k);
    for (Index i = 0; i < k; i += groups)
      check(i, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, MxCodes,
                         ::testing::Values(CodesCase{32, false}, CodesCase{32, true}, CodesCase{128, false},
                                           CodesCase{128, true}, CodesCase{800, false}, CodesCase{800, true}),
                         [](const auto &info) {
                           return std::string(info.param.k == 32    ? "Short"
                                              : info.param.k == 128 ? "ScalesByFours"
                                                                    : "Long") +
                                  (info.param.bf16Inputs ? "Rounded" : "AsTheyAre");
                         });

} // namespace
