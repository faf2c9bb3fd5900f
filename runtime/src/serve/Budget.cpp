//===- Budget.cpp - who gets how many rows of a step ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/serve/Budget.h"

#include <algorithm>

namespace k3rt {

void shareBudget(const std::vector<Demand> &demands, uint64_t budget,
                 std::vector<uint64_t> &granted) {
  granted.assign(demands.size(), 0);
  std::vector<size_t> decodes;
  uint64_t promptTokens = 0;
  for (size_t i = 0; i < demands.size(); ++i) {
    if (demands[i].decode)
      decodes.push_back(i);
    else
      promptTokens += std::min(demands[i].tokens, budget);
  }
  uint64_t share = budget == 1 ? 0 : std::max<uint64_t>(budget / 4, 1);
  uint64_t left = budget - std::min(promptTokens, share);
  if (decodes.size() > left) {
    std::sort(decodes.begin(), decodes.end(), [&](size_t a, size_t b) {
      return demands[a].lastServed != demands[b].lastServed
                 ? demands[a].lastServed < demands[b].lastServed
                 : a < b;
    });
    decodes.resize(left);
  }
  for (size_t i : decodes)
    granted[i] = 1;
  left = budget - decodes.size();
  for (size_t i = 0; i < demands.size(); ++i)
    if (!demands[i].decode) {
      granted[i] = std::min(demands[i].tokens, left);
      left -= granted[i];
    }
}

} // namespace k3rt
