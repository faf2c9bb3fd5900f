//===- Sample.cpp - the choice of a token ---------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Reference/Sample.h"

#include <algorithm>
#include <cmath>

namespace k3::ref {

Sampled sample(View logits, const SampleRule &rule, double uniform) {
  std::vector<bool> isBanned(static_cast<std::size_t>(logits.size()), false);
  for (std::int32_t id : rule.banned)
    isBanned[static_cast<std::size_t>(id)] = true;
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i]))
      return {-1};
    if (!isBanned[static_cast<std::size_t>(i)])
      ids.push_back(static_cast<std::int32_t>(i));
  }
  if (ids.empty())
    return {-1};
  std::vector<std::int32_t> ranked = ids;
  std::stable_sort(ranked.begin(), ranked.end(), [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  if (rule.temperature == 0)
    return {ranked.front()};

  double highest = logits[ranked.front()];
  auto weight = [&](std::int32_t id) { return std::exp((logits[id] - highest) / rule.temperature); };
  Sampled result{-1};
  auto near = [&](double distance) { result.margin = std::min(result.margin, std::fabs(distance)); };
  auto totalOf = [&](const std::vector<std::int32_t> &of) {
    double total = 0;
    for (std::int32_t id : of)
      total += weight(id);
    return total;
  };
  if (rule.topK > 0 && rule.topK < static_cast<Index>(ids.size())) {
    ranked.resize(static_cast<std::size_t>(rule.topK));
    ids = ranked;
  }
  if (rule.topP < 1) {
    double total = totalOf(ranked), sum = 0;
    std::size_t kept = 0;
    while (kept < ranked.size() && (kept == 0 || sum < rule.topP * total)) {
      near(sum / total - rule.topP);
      sum += weight(ranked[kept++]);
    }
    near(sum / total - rule.topP);
    ranked.resize(kept);
    ids = ranked;
  }
  std::vector<std::int32_t> likely;
  for (std::int32_t id : ids) {
    if (rule.minP > 0 && logits[id] != highest)
      near(weight(id) - rule.minP);
    if (weight(id) >= rule.minP)
      likely.push_back(id);
  }
  double total = totalOf(likely), sum = 0;
  for (std::int32_t id : likely) {
    double before = sum;
    sum += weight(id);
    result.id = id;
    if (uniform * total >= sum)
      continue;
    if (id != likely.front())
      near(uniform - before / total);
    if (id != likely.back())
      near(sum / total - uniform);
    break;
  }
  return result;
}

} // namespace k3::ref
