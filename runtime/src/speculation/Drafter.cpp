//===- Drafter.cpp - who proposes the tokens of one sequence -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/speculation/Drafter.h"

#include <algorithm>

namespace k3rt {

void Drafter::observe(const int32_t *tokens, uint64_t count) {
  if (options.fn)
    history.insert(history.end(), tokens, tokens + count);
  else
    ngrams.observe(tokens, count);
}

std::vector<int32_t> Drafter::draft(uint32_t most) {
  most = std::min(most, options.most);
  if (most == 0)
    return {};
  if (!options.fn)
    return ngrams.draft(most);
  std::vector<int32_t> tokens(most);
  uint32_t count = options.fn(options.user, history.data(), history.size(),
                              tokens.data(), most);
  tokens.resize(std::min(count, most));
  // What the model does not know it cannot confirm.
  auto unknown = std::find_if(tokens.begin(), tokens.end(), [&](int32_t id) {
    return id < 0 || uint32_t(id) >= vocabSize;
  });
  tokens.erase(unknown, tokens.end());
  return tokens;
}

void Drafter::report(uint32_t drafted, uint32_t accepted) {
  if (!options.fn)
    ngrams.report(drafted, accepted);
}

} // namespace k3rt
