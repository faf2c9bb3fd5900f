//===- DraftedSteps.h - steps that check guesses along ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Speculation for a sequence that the caller leads token by token. A step runs
// the newest token and guesses of what follows it. As long as the caller then
// chooses what was guessed, the logits are there already; at the first other
// choice the sequence goes back, and what it has to see again joins the next
// step: a step of a few tokens more costs less than one more step.
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_DRAFTEDSTEPS_H
#define K3_TOOLS_K3RUN_DRAFTEDSTEPS_H

#include "runtime/src/speculation/NgramDrafter.h"
#include "tools/runtime/k3-run/Engine.h"

namespace k3run {

class DraftedSteps {
public:
  /// Drafts of up to `mostDrafted` tokens; 0: plain steps.
  DraftedSteps(Engine &engine, k3rt_sequence sequence, uint32_t mostDrafted)
      : engine(engine), sequence(sequence), mostDrafted(mostDrafted) {}

  /// Tokens that the sequence was fed by others: a prompt.
  void observe(const std::vector<int32_t> &tokens) {
    if (mostDrafted != 0)
      ngrams.observe(tokens.data(), tokens.size());
  }

  /// The token after the last one is `id`; `next` is what follows it. `room`:
  /// tokens that may come after `id` at most, and which it makes no sense to
  /// draft more than. `choice`: of the token after `id`; of those after it,
  /// later steps of the same random numbers.
  [[nodiscard]] bool step(int32_t id, uint64_t room, const k3rt_choice &choice,
                          Next &next, std::string &error);
  /// Takes back what was only guessed: the sequence then holds what it was fed
  /// by `step`, and can go on in any way.
  [[nodiscard]] bool settle(std::string &error);

  k3rt_sequence sequenceHandle() const { return sequence; }
  uint64_t drafted() const { return numDrafted; }
  uint64_t accepted() const { return numAccepted; }

private:
  /// `certain`: tokens that are not guessed; `choice` is of what follows them.
  bool runRow(const std::vector<int32_t> &row, bool allLogits, size_t certain,
              const k3rt_choice &choice, std::string &error);
  bool rollBack(uint64_t keep, std::string &error);
  bool takeBack(std::string &error);
  Next nextAfter(size_t token) const;

  Engine &engine;
  k3rt_sequence sequence;
  uint32_t mostDrafted;
  k3rt::NgramDrafter ngrams;
  /// Of the last step: tokens that were run before and had to be run again, the
  /// newest token, and the draft. Empty: nothing is only guessed.
  std::vector<int32_t> row;
  size_t known = 0; ///< tokens of `row` that are certain
  size_t draftAt = 0;
  /// Tokens after the mark that the sequence has yet to be fed again.
  std::vector<int32_t> owed;
  k3rt_step_result result = {};
  const int32_t *chosen = nullptr;
  uint64_t numDrafted = 0, numAccepted = 0;
};

} // namespace k3run

#endif // K3_TOOLS_K3RUN_DRAFTEDSTEPS_H
