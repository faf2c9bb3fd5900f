//===- DraftedSteps.cpp - steps that check guesses along ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/DraftedSteps.h"

#include <algorithm>

namespace k3run {

/// Rejected again and again, what is run once more would grow without end.
static constexpr size_t mostOwed = 16;

/// Logits end the row.
Next DraftedSteps::nextAfter(size_t token) const {
  uint64_t at = result.num_logit_rows - row.size() + token;
  return {chosen[at],
          result.logits + at * static_cast<size_t>(result.vocab_size)};
}

bool DraftedSteps::runRow(const std::vector<int32_t> &tokens, bool allLogits,
                          size_t certain, const k3rt_choice &choice,
                          std::string &error) {
  k3rt_batch_row input = {sequence, tokens.data(), tokens.size(), allLogits};
  k3rt_batch batch = {&input, 1};
  // Steps count from the row's first logits; they wrap around.
  k3rt_sampling sampling = *choice.sampling;
  k3rt_choice shifted = choice;
  shifted.sampling = &sampling;
  if (allLogits)
    sampling.step -= certain - 1;
  return engine.check(
      k3rt_step_choose(engine.handle(), &batch, &shifted, &result, &chosen),
      error);
}

bool DraftedSteps::rollBack(uint64_t keep, std::string &error) {
  k3rt_rollback_row input = {sequence, keep};
  return engine.check(k3rt_rollback(engine.handle(), &input, 1), error);
}

bool DraftedSteps::takeBack(std::string &error) {
  if (row.empty())
    return true;
  ngrams.report(static_cast<uint32_t>(row.size() - draftAt),
                static_cast<uint32_t>(known - draftAt));
  bool again = known <= mostOwed;
  if (!rollBack(again ? 0 : known, error))
    return false;
  if (again)
    owed.assign(row.begin(), row.begin() + static_cast<ptrdiff_t>(known));
  row.clear();
  return true;
}

bool DraftedSteps::step(int32_t id, uint64_t room, const k3rt_choice &choice,
                        Next &next, std::string &error) {
  if (mostDrafted == 0)
    return engine.stepChoosing(sequence, &id, 1, choice, next, error);
  ngrams.observe(&id, 1);
  if (!row.empty()) {
    if (row[known] == id) {
      ++numAccepted;
      next = nextAfter(known++);
      if (known == row.size()) {
        ngrams.report(static_cast<uint32_t>(row.size() - draftAt),
                      static_cast<uint32_t>(row.size() - draftAt));
        row.clear();
      }
      return true;
    }
    if (!takeBack(error))
      return false;
  }
  std::vector<int32_t> draft = ngrams.draft(
      static_cast<uint32_t>(std::min<uint64_t>(room, mostDrafted)));
  if (!draft.empty() &&
      k3rt_sequence_mark(engine.handle(), sequence) != K3RT_OK)
    draft.clear();
  std::vector<int32_t> tokens;
  tokens.swap(owed);
  tokens.push_back(id);
  if (!draft.empty()) {
    size_t certain = tokens.size();
    row = tokens;
    row.insert(row.end(), draft.begin(), draft.end());
    if (runRow(row, true, certain, choice, error)) {
      draftAt = known = certain;
      numDrafted += draft.size();
      next = nextAfter(certain - 1);
      return true;
    }
    // It may have been the draft's fault: once more without one.
    row.clear();
    error.clear();
    if (!rollBack(0, error))
      return false;
  }
  if (!runRow(tokens, false, tokens.size(), choice, error))
    return false;
  next = {chosen[0], result.logits};
  return true;
}

bool DraftedSteps::settle(std::string &error) {
  if (row.empty())
    return true;
  size_t keep = known;
  row.clear();
  return rollBack(keep, error);
}

} // namespace k3run
