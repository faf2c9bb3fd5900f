//===- SamplerTest.cpp - choosing the next token ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Sampler.h"
#include "lib/Reference/Sample.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

using namespace k3rt;

namespace {
Sampler sampler(const SamplerOptions &options, uint32_t vocabSize) {
  Sampler result;
  std::string error;
  EXPECT_TRUE(result.init(options, vocabSize, error)) << error;
  return result;
}

int32_t sample(Sampler &sampler, const std::vector<float> &logits) {
  int32_t id = -1;
  std::string error;
  EXPECT_TRUE(sampler.sample(logits.data(), id, error)) << error;
  return id;
}

std::vector<double> frequencies(const SamplerOptions &options,
                                const std::vector<float> &logits,
                                int draws = 40000) {
  Sampler s = sampler(options, static_cast<uint32_t>(logits.size()));
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    counts[static_cast<size_t>(sample(s, logits))] += 1.0 / draws;
  return counts;
}

std::vector<double> softmax(const std::vector<float> &logits, double t) {
  double total = 0;
  std::vector<double> p;
  for (float logit : logits)
    total += std::exp(logit / t);
  for (float logit : logits)
    p.push_back(std::exp(logit / t) / total);
  return p;
}

void expectNear(const std::vector<double> &got,
                const std::vector<double> &wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  // 40000 draws: standard deviation at most 0.0025.
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 0.0125) << i;
}

const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 1.5f, 0.0f};

TEST(Sampler, ExpMatchesTheLibrary) {
  for (double x = 0; x > -700; x -= 0.0137) {
    double wanted = std::exp(x);
    ASSERT_NEAR(expNonPositive(x), wanted, 1e-15 * wanted) << x;
  }
  EXPECT_EQ(expNonPositive(0), 1);
  EXPECT_EQ(expNonPositive(-1e300), 0);
}

TEST(Sampler, GreedyTakesTheHighestAndTheLowerIdOnTies) {
  SamplerOptions options;
  options.greedy = true;
  Sampler s = sampler(options, 5);
  EXPECT_EQ(sample(s, {1, 3, 2, 3, 0}), 1);
  EXPECT_EQ(sample(s, {0, 0, 0, 0, 0}), 0);
  EXPECT_EQ(sample(s, {-5, -4, -4, -9, -4}), 1);
  options.greedy = false;
  options.temperature = 0;
  s = sampler(options, 5);
  EXPECT_EQ(sample(s, {1, 3, 2, 3, 0}), 1);
}

TEST(Sampler, FollowsTheDistribution) {
  SamplerOptions options;
  expectNear(frequencies(options, logits), softmax(logits, 1));
  options.temperature = 0.5f;
  expectNear(frequencies(options, logits), softmax(logits, 0.5));
  options.temperature = 2;
  expectNear(frequencies(options, logits), softmax(logits, 2));
}

std::vector<double> keepOnly(std::vector<double> p,
                             const std::vector<size_t> &kept) {
  std::vector<double> result(p.size());
  double total = 0;
  for (size_t i : kept)
    total += p[i];
  for (size_t i : kept)
    result[i] = p[i] / total;
  return result;
}

TEST(Sampler, FiltersKeepTheRightTokens) {
  std::vector<double> p = softmax(logits, 1); // about .11 .49 .02 .30 .07
  SamplerOptions options;
  options.topK = 2;
  expectNear(frequencies(options, logits), keepOnly(p, {1, 3}));
  options = {};
  options.topP = 0.8f; // .49 + .30 = .79 is not enough
  expectNear(frequencies(options, logits), keepOnly(p, {0, 1, 3}));
  options.topP = 0.75f;
  expectNear(frequencies(options, logits), keepOnly(p, {1, 3}));
  options.topP = 1e-6f;
  expectNear(frequencies(options, logits), keepOnly(p, {1}));
  options = {};
  options.minP = 0.2f; // .11 / .49 = .22, .07 / .49 = .14
  expectNear(frequencies(options, logits), keepOnly(p, {0, 1, 3}));
  options.minP = 1;
  expectNear(frequencies(options, logits), keepOnly(p, {1}));
  // topP counts within topK: of .49 .30 .11, .49 is 55 %.
  options = {};
  options.topK = 3;
  options.topP = 0.54f;
  expectNear(frequencies(options, logits), keepOnly(p, {1}));
}

TEST(Sampler, TopPOverALargeFlatVocabulary) {
  // Needs far more tokens than the first batch that is sorted.
  std::vector<float> flat(20000, 0.0f);
  SamplerOptions options;
  options.topP = 0.5f;
  Sampler s = sampler(options, 20000);
  double sum = 0;
  for (int i = 0; i < 200; ++i) {
    int32_t id = sample(s, flat);
    ASSERT_LT(id, 10001) << "ties are in order of ids";
    sum += id;
  }
  EXPECT_NEAR(sum / 200, 5000, 1000);
}

/// Few different values, so that there are ties, zeros of both signs among them.
std::vector<float> coarse(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float &value : values)
    value = (float(random() % 401) - 200) / 8 * (random() % 2 ? 1.0f : -1.0f);
  return values;
}

TEST(Sampler, GreedyOverALargeVocabulary) {
  for (uint32_t size : {1023, 1024, 1025, 20000}) {
    SamplerOptions options;
    options.greedy = true;
    std::vector<float> values = coarse(size, size);
    auto likeliest = [&] { return int32_t(std::max_element(values.begin(), values.end()) - values.begin()); };
    Sampler s = sampler(options, size);
    EXPECT_EQ(sample(s, values), likeliest());
    values.assign(size, -0.0f);
    values[size - 2] = 0.0f;
    EXPECT_EQ(sample(s, values), 0) << "zeros are equal";
    values = coarse(size + 1, size);
    options.bannedIds = {likeliest()};
    s = sampler(options, size);
    values[size_t(likeliest())] += 100;
    int32_t banned = options.bannedIds[0];
    std::vector<float> others = values;
    others[size_t(banned)] = -1000;
    EXPECT_EQ(sample(s, values), std::max_element(others.begin(), others.end()) - others.begin());
  }
}

// Only blocks with large values are looked at; what is chosen is what all of them would give.
TEST(Sampler, TopKOverALargeVocabulary) {
  constexpr uint32_t size = 20011;
  for (int32_t topK : {1, 2, 50, 300, 5000, 20011, 30000})
    for (bool bans : {false, true}) {
      std::vector<float> values = coarse(uint32_t(topK), size);
      std::vector<int32_t> order(size);
      for (uint32_t i = 0; i < size; ++i)
        order[i] = int32_t(i);
      std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        float first = values[size_t(a)], second = values[size_t(b)];
        return first != second ? first > second : a < b;
      });
      SamplerOptions options;
      options.topK = topK;
      options.temperature = 40; // all of them now and then
      if (bans) {
        options.bannedIds = {order[0], order[7], order[7], 3};
        order.erase(std::remove_if(order.begin(), order.end(),
                                   [&](int32_t id) {
                                     return std::count(options.bannedIds.begin(), options.bannedIds.end(), id) != 0;
                                   }),
                    order.end());
      }
      order.resize(std::min(order.size(), size_t(topK)));
      Sampler s = sampler(options, size);
      std::vector<int32_t> draws(order.size());
      for (int i = 0; i < 100; ++i) {
        auto found = std::find(order.begin(), order.end(), sample(s, values));
        ASSERT_NE(found, order.end()) << topK;
        ++draws[size_t(found - order.begin())];
      }
      if (topK == 2) {
        EXPECT_GT(draws[0], 20);
        EXPECT_GT(draws[1], 20);
      }
    }
}

TEST(Sampler, RepetitionPenaltyLowersSeenTokens) {
  SamplerOptions options;
  options.greedy = true;
  options.repetitionPenalty = 2;
  Sampler s = sampler(options, 4);
  EXPECT_EQ(sample(s, {3, 2, -1, 1}), 0);
  EXPECT_EQ(sample(s, {3, 2, -1, 1}), 1) << "3 became 1.5";
  // Negative logits go further down: -1 of a seen token becomes -2.
  s = sampler(options, 4);
  s.observe(2);
  EXPECT_EQ(sample(s, {-3, -4, -1, -1.5f}), 3);
}

TEST(Sampler, ExtremeOptionsStayFinite) {
  SamplerOptions options;
  options.repetitionPenalty = 1e-30f;
  options.temperature = 1e-30f;
  options.topP = 0.9f;
  Sampler s = sampler(options, 3);
  s.observe(1);
  EXPECT_EQ(sample(s, {-3e38f, 1e20f, 3e38f}), 1);
  options.repetitionPenalty = 1;
  s = sampler(options, 3);
  EXPECT_EQ(sample(s, {-3e38f, 0, 3e38f}), 2);
}

// The sequence is part of the contract: it must not change between machines,
// compilers or releases. The numbers come from a Python model of the same rules
// (splitmix64, then the running sum over ids).
/// What k3.sample is compared with.
TEST(Sampler, ChoosesAsTheReferenceDoes) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 400; ++i) {
    SamplerOptions options;
    k3::ref::SampleRule rule;
    uint32_t size = 1 + random() % 300;
    float spread = i % 3 == 0 ? 0.3f : 4;
    std::vector<float> logits(size);
    for (float &logit : logits) {
      logit = spread * normal(random);
      if (i % 5 == 0)
        logit = std::round(logit);
    }
    rule.temperature = options.temperature = i % 7 == 0 ? 0 : 0.5f + float(i % 4);
    rule.topK = options.topK = i % 2 ? int32_t(random() % 400) : 0;
    rule.topP = options.topP = i % 4 < 2 ? 0.83f : 1;
    rule.minP = options.minP = i % 6 == 4 ? 0.07f : 0;
    if (size > 3 && i % 3 == 1)
      rule.banned = options.bannedIds = {1, int32_t(size) - 1};
    options.seed = random();
    Sampler s = sampler(options, size);
    double uniform = double(s.randomBits(0)) * 0x1p-53;
    k3::ref::Sampled want = k3::ref::sample(logits, rule, uniform);
    if (want.margin > 1e-12)
      EXPECT_EQ(sample(s, logits), want.id) << i;
  }
}

// Someone else chooses some of the tokens.
TEST(Sampler, TakesWhatWasChosen) {
  SamplerOptions options;
  options.seed = 9;
  std::vector<float> logits(50, 1);
  for (bool greedy : {false, true}) {
    options.greedy = greedy;
    Sampler a = sampler(options, 50), b = sampler(options, 50);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(a.randomBits(0), b.randomBits(0));
      EXPECT_NE(a.randomBits(1), a.randomBits(0));
      uint64_t next = a.randomBits(1);
      int32_t id = sample(a, logits);
      EXPECT_EQ(a.randomBits(0), greedy ? b.randomBits(0) : next);
      if (i % 2)
        b.take(id);
      else
        EXPECT_EQ(sample(b, logits), id);
    }
  }
}

TEST(Sampler, SameSeedSameTokens) {
  SamplerOptions options;
  options.seed = 42;
  std::vector<int32_t> first, second, other;
  Sampler a = sampler(options, 5), b = sampler(options, 5);
  options.seed = 43;
  Sampler c = sampler(options, 5);
  for (int i = 0; i < 16; ++i) {
    first.push_back(sample(a, logits));
    second.push_back(sample(b, logits));
    other.push_back(sample(c, logits));
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_EQ(first, (std::vector<int32_t>{3, 1, 1, 1, 0, 3, 1, 3, 1, 2, 1, 1, 1, 1, 3, 1}));
}

TEST(Sampler, SeekGoesToAnyStep) {
  SamplerOptions options;
  options.seed = 42;
  Sampler a = sampler(options, 5);
  std::vector<int32_t> inOrder;
  for (int i = 0; i < 16; ++i)
    inOrder.push_back(sample(a, logits));
  for (size_t step : {9, 0, 15, 3}) {
    a.seek(step);
    EXPECT_EQ(sample(a, logits), inOrder[step]);
  }
}

// G03, G06: a broken model is an error, never a plausible token.
TEST(Sampler, NonFiniteLogitsAreAnError) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (bool greedy : {true, false}) {
    SamplerOptions options;
    options.greedy = greedy;
    options.bannedIds = {2};
    Sampler s = sampler(options, 3);
    for (std::vector<float> bad : std::vector<std::vector<float>>{
             {nan, nan, nan}, {1, nan, 0}, {1, 0, nan}, {inf, 0, 0},
             {0, -inf, 0}}) {
      int32_t id = -7;
      std::string error;
      EXPECT_FALSE(s.sample(bad.data(), id, error));
      EXPECT_EQ(id, -7);
      EXPECT_NE(error.find("no token chosen"), std::string::npos);
    }
  }
  Sampler s = sampler({}, 3);
  int32_t id;
  std::string error;
  std::vector<float> bad = {0, 1, nan};
  EXPECT_FALSE(s.sample(bad.data(), id, error));
  EXPECT_EQ(error.substr(0, 14), "logit 2 is NaN");
}

// A failed step leaves the random state alone.
TEST(Sampler, FailureDoesNotAdvanceTheRandomState) {
  Sampler a = sampler({}, 5), b = sampler({}, 5);
  std::vector<float> bad(5, std::numeric_limits<float>::quiet_NaN());
  int32_t id;
  std::string error;
  EXPECT_FALSE(a.sample(bad.data(), id, error));
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(sample(a, logits), sample(b, logits));
}

// G04: a banned id is not sampled even when it is by far the likeliest.
TEST(Sampler, BannedIdsAreNeverChosen) {
  std::vector<float> pad = {1, 0, 50, 0.5f};
  for (int mode = 0; mode < 4; ++mode) {
    SamplerOptions options;
    options.bannedIds = {2};
    options.greedy = mode == 0;
    options.topK = mode == 1 ? 2 : 0;
    options.topP = mode == 2 ? 0.9f : 1;
    Sampler s = sampler(options, 4);
    for (int i = 0; i < 500; ++i)
      ASSERT_NE(sample(s, pad), 2);
  }
  SamplerOptions options;
  options.bannedIds = {0, 1};
  Sampler s = sampler(options, 2);
  int32_t id;
  std::string error;
  std::vector<float> two = {0, 0};
  EXPECT_FALSE(s.sample(two.data(), id, error));
  EXPECT_EQ(error, "every token id is banned");
}

TEST(Sampler, RefusesOptionsOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto refused = [](auto change) {
    SamplerOptions options;
    change(options);
    Sampler s;
    std::string error;
    EXPECT_FALSE(s.init(options, 10, error));
    return error;
  };
  EXPECT_EQ(refused([](SamplerOptions &o) { o.topP = 0; }).substr(0, 33),
            "top-p must be above 0 and at most");
  EXPECT_NE(refused([](SamplerOptions &o) { o.topP = 1.5f; }), "");
  EXPECT_NE(refused([&](SamplerOptions &o) { o.topP = nan; }), "");
  EXPECT_NE(refused([](SamplerOptions &o) { o.temperature = -1; }), "");
  EXPECT_NE(refused([&](SamplerOptions &o) { o.temperature = nan; }), "");
  EXPECT_NE(refused([](SamplerOptions &o) { o.temperature = INFINITY; }), "");
  EXPECT_NE(refused([](SamplerOptions &o) { o.topK = -1; }), "");
  EXPECT_NE(refused([](SamplerOptions &o) { o.minP = -0.1f; }), "");
  EXPECT_NE(refused([](SamplerOptions &o) { o.repetitionPenalty = 0; }), "");
  EXPECT_EQ(refused([](SamplerOptions &o) { o.bannedIds = {10}; }),
            "banned id must be below 10, got 10");
  EXPECT_NE(refused([](SamplerOptions &o) { o.bannedIds = {-1}; }), "");
}
} // namespace
