//===- SampleKernelTest.cpp - the compiled choice of a token --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Sample.h"
#include "test/unit/Codegen/KernelHarness.h"

#include <cmath>
#include <cstring>

using namespace k3;
using namespace k3::test;

namespace {

constexpr Index parameters = 8, banSets = 4;

/// Weights are multiples of 2^-s of the likeliest: this is how far sums over a vocabulary can be off, as a share of it.
double toleranceOf(Index vocabulary) {
  double bits = std::min(51.0, 62 - std::floor(std::log2(double(vocabulary))));
  return double(vocabulary) * std::ldexp(1.0, -int(bits)) + 1e-13;
}

/// Rows to be sampled, and what should come out.
class Rows {
public:
  explicit Rows(Index vocabulary, unsigned seed) : vocabulary(vocabulary), random(seed), banned(banSets) {}

  /// Set 0 is empty.
  void ban(std::size_t set, std::vector<std::int32_t> ids) { banned[set] = std::move(ids); }

  /// Draws a random number that does not fall on a boundary, as far as rounding can tell.
  void add(Vec values, ref::SampleRule rule, std::size_t set = 0) {
    std::int64_t number = drawNumber(values, rule, set);
    add(std::move(values), rule, set, number);
  }
  /// Normal logits for several rows. Alone they are drawn again where a case file is played, and take no room in it.
  void addDrawn(double scale, const std::vector<ref::SampleRule> &rules) {
    Vec all = random.normal(vocabulary * static_cast<Index>(rules.size()), scale);
    for (std::size_t i = 0; i < rules.size(); ++i)
      add(Vec(all.begin() + static_cast<Index>(i) * vocabulary, all.begin() + static_cast<Index>(i + 1) * vocabulary), rules[i]);
  }
  void add(Vec values, ref::SampleRule rule, std::size_t set, std::int64_t number) {
    expected.push_back(choose(values, rule, set, number).id);
    append(std::move(values), rule, set, number, 1);
  }
  void addUnwanted(Vec values) {
    expected.push_back(-1);
    append(std::move(values), {}, 0, 0, 0);
  }
  Vec normal(double scale) { return random.normal(vocabulary, scale); }
  Vec constant(double value) const { return Vec(static_cast<std::size_t>(vocabulary), value); }

  KernelSpec spec() const {
    KernelSpec spec("k3.sample");
    spec.in(Array::f32({1, vocabulary}, constant(0)), {0}).in(Array::i32({1, parameters}, std::vector<std::int32_t>(parameters)), {0});
    spec.in(bans()).out(Array::undefined("i32", {1}), {0});
    return spec;
  }
  void check(CompiledKernel &kernel) const {
    auto count = static_cast<Index>(expected.size());
    Array ids = Array::undefined("i32", {count});
    kernel.run({Array::f32({count, vocabulary}, logits), Array::i32({count, parameters}, words), bans(), ids});
    EXPECT_TRUE(isEqual(ids, expected)) << "vocabulary " << vocabulary;
  }

private:
  Index words32() const { return (vocabulary + 31) / 32; }
  Array bans() const {
    std::vector<std::int32_t> bits(static_cast<std::size_t>(banSets * words32()));
    for (std::size_t set = 0; set < banSets; ++set)
      for (std::int32_t id : banned[set])
        bits[set * static_cast<std::size_t>(words32()) + static_cast<std::size_t>(id / 32)] |=
            static_cast<std::int32_t>(1u << (id % 32));
    return Array::i32({banSets, words32()}, bits);
  }
  ref::Sampled choose(const Vec &values, ref::SampleRule rule, std::size_t set, std::int64_t number) const {
    rule.banned = banned[set];
    return ref::sample(Array::f32({vocabulary}, values).values(), rule, double(number) * 0x1p-53);
  }
  std::int64_t drawNumber(const Vec &values, const ref::SampleRule &rule, std::size_t set) {
    for (;;) {
      std::int64_t number = random.integer(0, (std::int64_t(1) << 53) - 1);
      if (choose(values, rule, set, number).margin >= toleranceOf(vocabulary))
        return number;
    }
  }
  void append(Vec values, const ref::SampleRule &rule, std::size_t set, std::int64_t number, std::int32_t wanted) {
    auto bitsOf = [](double value) {
      auto narrow = static_cast<float>(value);
      std::int32_t bits;
      std::memcpy(&bits, &narrow, sizeof(bits));
      return bits;
    };
    logits.insert(logits.end(), values.begin(), values.end());
    for (std::int32_t word :
         {wanted, bitsOf(rule.temperature), static_cast<std::int32_t>(rule.topK), bitsOf(rule.topP), bitsOf(rule.minP),
          static_cast<std::int32_t>(number), static_cast<std::int32_t>(number >> 32), static_cast<std::int32_t>(set)})
      words.push_back(word);
  }

  Index vocabulary;
  Random random;
  std::vector<std::vector<std::int32_t>> banned;
  Vec logits;
  std::vector<std::int32_t> words, expected;
};

ref::SampleRule rule(double temperature, Index topK = 0, double topP = 1, double minP = 0) {
  return {{}, temperature, topK, double(float(topP)), double(float(minP))};
}

void addAll(Rows &rows, Index vocabulary) {
  auto last = static_cast<std::int32_t>(vocabulary - 1);
  rows.ban(1, {0});
  rows.ban(2, {0, last});
  std::vector<std::int32_t> all;
  for (std::int32_t id = 0; id <= last; ++id)
    all.push_back(id);
  rows.ban(3, all);

  rows.add(rows.normal(3), rule(0));
  rows.add(rows.normal(3), rule(1));
  rows.add(rows.normal(3), rule(double(0.7f), 0, 0.9));
  rows.add(rows.normal(3), rule(1, 5));
  rows.add(rows.normal(3), rule(double(1.3f), 40, 0.95, 0.02));
  rows.add(rows.normal(3), rule(1, 0, 1, 0.1));
  rows.add(rows.normal(1), rule(5, vocabulary + 3));
  rows.add(rows.normal(0.1), rule(1, 0, 0.999));
  rows.add(rows.normal(3), rule(1, 0, 1e-6));
  rows.add(rows.normal(1e37), rule(1e30f));
  rows.addUnwanted(rows.constant(NAN));
  // Ties: all, and many of a few values, with both zeros.
  rows.add(rows.constant(-2.5), rule(0));
  rows.add(rows.constant(-2.5), rule(1));
  rows.add(rows.constant(-2.5), rule(1, 3));
  rows.add(rows.constant(0), rule(1, 0, 0.3));
  Vec ties = rows.normal(1);
  for (double &value : ties)
    value = value > 0.8 ? 2.0 : value > 0 ? 0.0 : value > -1 ? -0.0 : -1.5;
  rows.add(ties, rule(0));
  rows.add(ties, rule(1, 7));
  rows.add(ties, rule(1, 0, 0.6));
  rows.add(ties, rule(1, 0, 0.8, 0.3));
  Vec zeros = rows.constant(-0.0);
  zeros.back() = 0.0;
  rows.add(zeros, rule(0));
  // The ends of the random numbers.
  for (std::int64_t number : {std::int64_t(0), (std::int64_t(1) << 53) - 1}) {
    Vec steep = rows.constant(-40);
    steep.front() = steep.back() = 1;
    rows.add(steep, rule(1, 0, 1, 0.5), 0, number);
    rows.add(steep, rule(1, 2), 0, number);
  }
  // What is banned is not there; what is not finite counts though it is.
  Vec likeliest = rows.normal(1);
  likeliest.front() = 30;
  for (std::size_t set : {1, 2, 3}) {
    rows.add(likeliest, rule(0), set);
    rows.add(likeliest, rule(1), set);
    rows.add(likeliest, rule(1, 4, 0.9), set);
  }
  for (double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    Vec broken = rows.normal(1);
    broken.front() = bad;
    rows.add(broken, rule(0), 1);
    rows.add(broken, rule(1));
    Vec late = rows.normal(1);
    late.back() = bad;
    rows.add(late, rule(1, 3, 0.5));
  }
}

/// Every thread of a block does all that the decomposition does, which takes long where they are interpreted.
bool isSlow(const CompileOptions &way) { return simulating() && way.forceGeneric; }

TEST(Sample, MatchesReference) {
  for (Index vocabulary : {1, 31, 128, 130, 1000, 4421})
    for (const CompileOptions &way : allWays()) {
      if (isSlow(way) && vocabulary != 31)
        continue;
      Rows rows(vocabulary, 11);
      auto kernel = rows.spec().compile(way);
      ASSERT_TRUE(kernel);
      rows.check(*kernel); // none
      if (isSlow(way))
        rows.add(rows.normal(3), rule(double(1.3f), 20, 0.9, 0.02));
      else
        addAll(rows, vocabulary);
      rows.check(*kernel);
      if (HasFailure())
        FAIL() << way;
    }
}

/// K3's vocabulary: more tiles than bins, and more than one round of each loop.
TEST(Sample, MatchesReferenceOverK3sVocabulary) {
  constexpr Index vocabulary = 163840;
  for (const CompileOptions &way : allWays()) {
    if (way.forceGeneric && !exporting())
      continue;
    Rows rows(vocabulary, 12);
    auto kernel = rows.spec().compile(way);
    ASSERT_TRUE(kernel);
    if (exporting())
      rows.addDrawn(3, {rule(0), rule(1), rule(double(0.7f), 0, 0.9), rule(1, 50), rule(double(1.3f), 40, 0.95, 0.02),
                        rule(1, 0, 1, 0.1), rule(1, 0, 0.999), rule(1, 1000, 0.5)});
    else
      rows.addDrawn(3, {rule(1), rule(1, 50, 0.95)});
    rows.check(*kernel);
    if (!simulating() && !exporting())
      break; // one target will do
  }
}

/// Sums that meet p exactly need no further token.
TEST(Sample, ReachesTopPExactly) {
  for (const CompileOptions &way : allWays()) {
    if (isSlow(way))
      continue;
    Rows rows(4, 13);
    auto kernel = rows.spec().compile(way);
    ASSERT_TRUE(kernel);
    for (std::int64_t quarter : {0, 1, 2, 3})
      rows.add(rows.constant(1), rule(1, 0, 0.5), 0, quarter << 51);
    rows.check(*kernel);
  }
}

} // namespace
