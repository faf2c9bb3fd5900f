//===- Sampler.cpp - choosing the next token ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

namespace k3rt {

double expNonPositive(double x) {
  // x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first with enough trailing zeros that k times it is exact.
  // Without branches, so that loops over it become vectors. Adding `round` leaves the nearest integer in the lowest bits.
  constexpr double round = 0x1.8p52;
  double shifted = x * 1.4426950408889634 + round, k = shifted - round;
  double r = x - k * 0.69314718036912381649;
  r = r - k * 1.9082149292705877e-10;
  double sum = 1.0 / 6227020800;
  for (double factorial : {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0,
                           1.0})
    sum = sum * r + 1 / factorial;
  int64_t bits, origin;
  std::memcpy(&bits, &shifted, sizeof(bits));
  std::memcpy(&origin, &round, sizeof(origin));
  constexpr int64_t bias = 1023;
  bits = int64_t(uint64_t(bits - origin + bias) << 52);
  double power;
  std::memcpy(&power, &bits, sizeof(power));
  return x < -708 ? 0 : sum * power;
}

bool Sampler::init(const SamplerOptions &newOptions, uint32_t newVocabSize,
                   std::string &error) {
  auto fail = [&error](const char *name, const std::string &rule, auto value) {
    error = std::string(name) + " must be " + rule + ", got " +
            std::to_string(value);
    return false;
  };
  // Written so that NaN fails.
  if (!(newOptions.repetitionPenalty > 0) ||
      !std::isfinite(newOptions.repetitionPenalty))
    return fail("repetition penalty", "above 0", newOptions.repetitionPenalty);
  if (!(newOptions.temperature >= 0) || !std::isfinite(newOptions.temperature))
    return fail("temperature", "at least 0", newOptions.temperature);
  if (newOptions.topK < 0)
    return fail("top-k", "at least 0", newOptions.topK);
  if (!(newOptions.topP > 0 && newOptions.topP <= 1))
    return fail("top-p", "above 0 and at most 1", newOptions.topP);
  if (!(newOptions.minP >= 0 && newOptions.minP <= 1))
    return fail("min-p", "from 0 to 1", newOptions.minP);
  std::vector<bool> newBanned(newVocabSize, false);
  for (int32_t id : newOptions.bannedIds) {
    if (id < 0 || static_cast<uint32_t>(id) >= newVocabSize)
      return fail("banned id", "below " + std::to_string(newVocabSize), id);
    newBanned[static_cast<size_t>(id)] = true;
  }
  options = newOptions;
  vocabSize = newVocabSize;
  state = newOptions.seed;
  banned = std::move(newBanned);
  bansAny = !newOptions.bannedIds.empty();
  seen.clear();
  return true;
}

void Sampler::observe(int32_t id) {
  if (options.repetitionPenalty != 1)
    seen.insert(id);
}

namespace {
constexpr uint64_t increment = 0x9e3779b97f4a7c15u;
}

void Sampler::seek(uint64_t step) { state = options.seed + step * increment; }

/// splitmix64
uint64_t Sampler::randomBits(uint64_t ahead) const {
  uint64_t z = state + (ahead + 1) * increment;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return z >> 11;
}

/// In [0, 1).
double Sampler::nextUniform() {
  auto bits = static_cast<double>(randomBits(0));
  state += increment;
  return bits * 0x1p-53;
}

void Sampler::take(int32_t id) {
  if (!isGreedy())
    state += increment;
  observe(id);
}

namespace {
/// A total order, so that the first n are the same on every machine.
struct MoreLikely {
  template <typename C> bool operator()(const C &a, const C &b) const {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
};
} // namespace

/// In the order of the values, -0 as 0; integers are compared by vectors.
static int32_t keyOf(float value) {
  value += 0.0f;
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits ^ (bits >> 31 & INT32_MAX);
}

static int32_t largestKey(const float *values, uint32_t count) {
  int32_t largest = INT32_MIN;
  for (uint32_t i = 0; i < count; ++i)
    largest = std::max(largest, keyOf(values[i]));
  return largest;
}

/// Position of the largest of `count` > 0 finite values, of equal ones the first.
static uint32_t largestAt(const float *values, uint32_t count) {
  constexpr uint32_t block = 1024;
  int32_t largest = INT32_MIN;
  uint32_t at = 0;
  for (uint32_t begin = 0; begin < count; begin += block) {
    int32_t here = largestKey(values + begin, std::min(block, count - begin));
    if (here > largest) {
      largest = here;
      at = begin;
    }
  }
  while (keyOf(values[at]) != largest)
    ++at;
  return at;
}

static bool allFinite(const float *values, uint32_t count) {
  // An exponent of ones and one more carry into the sign.
  uint32_t seen = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    seen |= (bits & 0x7fffffff) + (1u << 23);
  }
  return seen >> 31 == 0;
}

void Sampler::collectTop(const float *logits) {
  // Of the largest values of blocks the topK-th: there are topK values that are not smaller.
  constexpr uint32_t block = 32;
  blockKeys.clear();
  for (uint32_t begin = 0; begin < vocabSize; begin += block)
    blockKeys.push_back(largestKey(logits + begin, std::min(block, vocabSize - begin)));
  size_t wanted = size_t(options.topK) + options.bannedIds.size();
  if (wanted >= blockKeys.size())
    return collect(logits);
  sortedKeys = blockKeys;
  std::nth_element(sortedKeys.begin(), sortedKeys.begin() + ptrdiff_t(wanted - 1), sortedKeys.end(), std::greater<>());
  int32_t least = sortedKeys[wanted - 1];
  candidates.clear();
  for (uint32_t begin = 0; begin < vocabSize; begin += block)
    if (blockKeys[begin / block] >= least)
      for (uint32_t id = begin; id < std::min(begin + block, vocabSize); ++id)
        if (keyOf(logits[id]) >= least && !banned[id])
          candidates.push_back({logits[id], static_cast<int32_t>(id)});
  // As they are when they are chosen from all.
  std::sort(candidates.begin(), candidates.end(), MoreLikely());
}

void Sampler::collect(const float *logits) {
  candidates.resize(vocabSize);
  for (uint32_t id = 0; id < vocabSize; ++id)
    candidates[id] = {logits[id], static_cast<int32_t>(id)};
  if (bansAny)
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [this](const Candidate &candidate) { return banned[size_t(candidate.id)]; }),
                     candidates.end());
  if (options.repetitionPenalty == 1)
    return;
  for (Candidate &candidate : candidates)
    if (seen.count(candidate.id))
      // An extreme penalty must not turn a finite logit into an infinite one.
      candidate.logit = std::clamp(
          candidate.logit > 0 ? candidate.logit / options.repetitionPenalty
                              : candidate.logit * options.repetitionPenalty,
          -std::numeric_limits<float>::max(),
          std::numeric_limits<float>::max());
}

bool Sampler::sample(const float *logits, int32_t &id, std::string &error) {
  if (!allFinite(logits, vocabSize)) {
    uint32_t i = 0;
    while (std::isfinite(logits[i]))
      ++i;
    error = std::string("logit ") + std::to_string(i) + " is " +
            (std::isnan(logits[i]) ? "NaN" : "infinite") +
            ": the model's output is not usable, no token chosen";
    return false;
  }
  bool greedy = isGreedy(), asGiven = seen.empty();
  if (greedy && asGiven && vocabSize != 0) {
    // The usual case: nothing is in the way of the largest.
    uint32_t at = largestAt(logits, vocabSize);
    if (!banned[at]) {
      id = static_cast<int32_t>(at);
      observe(id);
      return true;
    }
  }
  if (!greedy && asGiven && options.topK > 0)
    collectTop(logits);
  else
    collect(logits);
  if (candidates.empty()) {
    error = "every token id is banned";
    return false;
  }
  id = choose();
  observe(id);
  return true;
}

int32_t Sampler::choose() {
  if (isGreedy())
    return std::min_element(candidates.begin(), candidates.end(), MoreLikely())
        ->id;
  if (options.topK > 0 &&
      static_cast<size_t>(options.topK) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + options.topK,
                     candidates.end(), MoreLikely());
    candidates.resize(static_cast<size_t>(options.topK));
    std::sort(candidates.begin(), candidates.end(), MoreLikely());
  }
  float highest = candidates.front().logit;
  for (const Candidate &candidate : candidates)
    highest = std::max(highest, candidate.logit);
  // Weights relative to the likeliest token, which has weight 1.
  weights.resize(candidates.size());
  double temperature = options.temperature;
  for (size_t i = 0; i < candidates.size(); ++i)
    weights[i] = expNonPositive((double(candidates[i].logit) - double(highest)) / temperature);
  return options.topP < 1 ? chooseTopP(options.minP) : chooseAny(options.minP);
}

/// Draws from the candidates, in their present order, whose weight is at least
/// `floorWeight`.
int32_t Sampler::chooseAny(double floorWeight) {
  double total = 0;
  for (double weight : weights)
    if (weight >= floorWeight)
      total += weight;
  double target = nextUniform() * total, sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (weights[i] < floorWeight || weights[i] == 0)
      continue;
    last = i;
    sum += weights[i];
    if (target < sum)
      break;
  }
  return candidates[last].id;
}

int32_t Sampler::chooseTopP(double floorWeight) {
  // Put the candidates in order only as far as topP reaches: it is usually a
  // few tokens out of the whole vocabulary.
  double total = 0;
  for (double weight : weights)
    total += weight;
  double wanted = options.topP * total, sum = 0;
  double highest = candidates.front().logit;
  for (const Candidate &candidate : candidates)
    highest = std::max<double>(highest, candidate.logit);
  size_t sorted = 0, kept = 0, step = 256;
  while (kept < candidates.size() && (kept == 0 || sum < wanted)) {
    if (kept == sorted) {
      size_t end = std::min(candidates.size(), sorted + step);
      std::partial_sort(candidates.begin() + static_cast<ptrdiff_t>(sorted),
                        candidates.begin() + static_cast<ptrdiff_t>(end),
                        candidates.end(), MoreLikely());
      sorted = end;
      step *= 8;
    }
    sum += expNonPositive((candidates[kept].logit - highest) /
                          options.temperature);
    ++kept;
  }
  candidates.resize(kept);
  weights.resize(kept);
  for (size_t i = 0; i < kept; ++i)
    weights[i] = expNonPositive((candidates[i].logit - highest) /
                                options.temperature);
  return chooseAny(floorWeight);
}

} // namespace k3rt
