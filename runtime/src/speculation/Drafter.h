//===- Drafter.h - who proposes the tokens of one sequence ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A draft is only a guess. The model runs over it, and each of its tokens is
// kept if it is the one that would have been chosen anyway, with the same
// random numbers: that is rejection sampling for a drafter that is sure of its
// guess (it is accepted with the model's own probability of it, and what comes
// in its place is distributed as the rest), and more than that: the answer is
// the very one that would have come without drafts.
//===----------------------------------------------------------------------===//
#ifndef K3RT_SPECULATION_DRAFTER_H
#define K3RT_SPECULATION_DRAFTER_H

#include "k3rt/k3rt.h"
#include "runtime/src/speculation/NgramDrafter.h"

namespace k3rt {

struct DraftOptions {
  uint32_t most = 0;          ///< tokens of a draft; 0 = no drafts
  k3rt_draft_fn fn = nullptr; ///< nullptr: NgramDrafter
  void *user = nullptr;
};

class Drafter {
public:
  Drafter(const DraftOptions &options, uint32_t vocabSize)
      : options(options), vocabSize(vocabSize) {}

  /// Tokens of the prompt, and then of the answer, in order.
  void observe(const int32_t *tokens, uint64_t count);
  /// At most `most` tokens that may follow, all in the vocabulary.
  std::vector<int32_t> draft(uint32_t most);
  /// What has become of the last draft.
  void report(uint32_t drafted, uint32_t accepted);

private:
  DraftOptions options;
  uint32_t vocabSize;
  NgramDrafter ngrams;
  std::vector<int32_t> history; ///< for options.fn
};

} // namespace k3rt

#endif // K3RT_SPECULATION_DRAFTER_H
