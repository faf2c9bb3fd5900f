//===- LogProbability.cpp - softmax of one row of logits ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/LogProbability.h"

#include <algorithm>
#include <cmath>

namespace k3run {

double logProbability(const float *logits, size_t vocab, int32_t id) {
  double highest = logits[0];
  for (size_t i = 1; i < vocab; ++i)
    highest = std::max<double>(highest, logits[i]);
  double sum = 0;
  for (size_t i = 0; i < vocab; ++i)
    sum += std::exp(logits[i] - highest);
  return logits[id] - highest - std::log(sum);
}

int32_t likeliest(const float *logits, size_t vocab) {
  return static_cast<int32_t>(std::max_element(logits, logits + vocab) -
                              logits);
}

} // namespace k3run
