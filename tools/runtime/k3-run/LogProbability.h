//===- LogProbability.h - softmax of one row of logits ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_LOGPROBABILITY_H
#define K3_TOOLS_K3RUN_LOGPROBABILITY_H

#include <cstddef>
#include <cstdint>

namespace k3run {

/// Natural logarithm of the probability of `id` under `logits` [vocab], summed in
/// double precision. Not finite when a logit is not.
double logProbability(const float *logits, size_t vocab, int32_t id);

/// Position of the highest logit, the first of equals.
int32_t likeliest(const float *logits, size_t vocab);

} // namespace k3run

#endif // K3_TOOLS_K3RUN_LOGPROBABILITY_H
