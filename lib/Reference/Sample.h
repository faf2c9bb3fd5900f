//===- Sample.h - the choice of a token -----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

#include <limits>

namespace k3::ref {

/// How a token is chosen (k3.sample); filters work in this order.
struct SampleRule {
  std::vector<std::int32_t> banned;
  double temperature = 1; ///< >= 0; 0: the highest logit
  Index topK = 0;         ///< 0: all
  double topP = 1;        ///< in (0, 1]
  double minP = 0;        ///< in [0, 1]
};

struct Sampled {
  std::int32_t id; ///< -1: a logit is not finite, or all tokens are banned
  /// How near a comparison on the way was, as a share of all weights or of the likeliest one's: what rounds weights
  /// by less than that chooses the same.
  double margin = std::numeric_limits<double>::infinity();
};

/// Token of `logits` [vocab] that `uniform` in [0, 1) falls on. Of equal logits the lower id is first. Tokens lie in falling
/// order if topK or topP leaves any out or may (topP < 1), else by rising id.
Sampled sample(View logits, const SampleRule &rule, double uniform);

} // namespace k3::ref
