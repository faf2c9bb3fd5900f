//===- Budget.h - who gets how many rows of a step -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_SERVE_BUDGET_H
#define K3RT_SERVE_BUDGET_H

#include <cstdint>
#include <vector>

namespace k3rt {

/// What a running request could use of a step: the tokens of its prompt that
/// are left, or its newest token and those to be run again (decode).
struct Demand {
  uint64_t tokens = 0;
  bool decode = false;
  uint64_t lastServed = 0; ///< step in which it was given rows
};

/// How many rows each of `demands`, which are in the order of their requests,
/// gets of `budget` >= 1. Decodes come first, so that a long prompt never stops
/// them, with all their tokens or none; where there are more than fit, those that
/// have waited longest. One of more than half of the budget may never fit. A
/// quarter of the budget is kept for prompts as long as there are some, so that
/// decodes never stop them either; these are served in order. With a budget of
/// one row, prompts wait for decodes.
void shareBudget(const std::vector<Demand> &demands, uint64_t budget,
                 std::vector<uint64_t> &granted);

} // namespace k3rt

#endif // K3RT_SERVE_BUDGET_H
