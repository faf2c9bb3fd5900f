//===- Budget.cpp - who gets how many rows of a step ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/serve/Budget.h"

#include <algorithm>
#include <numeric>

namespace k3rt {

void shareBudget(const std::vector<Demand> &demands, uint64_t budget,
                 std::vector<uint64_t> &granted) {
  granted.assign(demands.size(), 0);
  std::vector<size_t> decodes;
  uint64_t promptTokens = 0, decodeTokens = 0;
  for (size_t i = 0; i < demands.size(); ++i) {
    if (demands[i].decode) {
      decodes.push_back(i);
      decodeTokens += demands[i].tokens;
    } else {
      promptTokens += std::min(demands[i].tokens, budget);
    }
  }
  uint64_t share = budget == 1 ? 0 : std::max<uint64_t>(budget / 4, 1);
  uint64_t left = budget - std::min(promptTokens, share);
  if (decodeTokens > left)
    std::sort(decodes.begin(), decodes.end(), [&](size_t a, size_t b) {
      return demands[a].lastServed != demands[b].lastServed
                 ? demands[a].lastServed < demands[b].lastServed
                 : a < b;
    });
  for (size_t i : decodes)
    if (demands[i].tokens <= left) {
      granted[i] = demands[i].tokens;
      left -= granted[i];
    }
  left = budget - std::accumulate(granted.begin(), granted.end(), uint64_t(0));
  for (size_t i = 0; i < demands.size(); ++i)
    if (!demands[i].decode) {
      granted[i] = std::min(demands[i].tokens, left);
      left -= granted[i];
    }
}

} // namespace k3rt
