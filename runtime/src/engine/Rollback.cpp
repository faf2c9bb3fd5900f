//===- Rollback.cpp - taking back tokens of a sequence -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A recurrence cannot be run backwards. A mark is a copy of the slot, in a free
// slot of the pool: it costs a copy inside the device and no memory that was
// not planned. The cache needs none: rows behind the length of a sequence are
// not read, and are written again.
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/Engine.h"

#include <algorithm>

namespace k3rt {

using Word = unsigned long long;

Status Engine::markSequence(k3rt_sequence handle) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  Sequence &sequence = sequences[index];
  if (!sequence.failure.empty())
    return Status(K3RT_INVALID_ARGUMENT, sequence.failure);
  if (!sequence.markSlot) {
    sequence.markSlot = states.takeSlot(StatePool::Contents::any);
    if (!sequence.markSlot)
      return makeError(K3RT_OUT_OF_MEMORY,
                       "a mark needs a state slot, all %u are in use "
                       "(max_sequences)",
                       memory.slots);
  }
  states.copySlot(sequence.holding.slot, *sequence.markSlot);
  sequence.markLength = sequence.length();
  return Status();
}

Status Engine::unmarkSequence(k3rt_sequence handle) {
  uint32_t index;
  K3RT_RETURN_IF_ERROR(findSequence(handle, index));
  dropMark(sequences[index]);
  return Status();
}

void Engine::dropMark(Sequence &sequence) {
  if (sequence.markSlot)
    states.giveSlotBack(*sequence.markSlot);
  sequence.markSlot.reset();
}

/// A page that has come to be shared since the mark is not written to again: it
/// does not become free, and what it is written to instead has to be.
uint32_t Engine::pagesToRollBack(const Sequence &sequence,
                                 uint64_t keep) const {
  uint32_t marked = states.pagesFor(sequence.markLength);
  Holding back;
  const std::vector<int32_t> &held = sequence.holding.pages;
  back.pages.assign(held.begin(), held.begin() + marked);
  uint32_t has = promisedPages(sequence);
  for (size_t i = marked; i < held.size(); ++i)
    has += states.pageUsers(held[i]) == 1;
  uint32_t wants = states.pagesToWrite(
      back, sequence.markLength,
      std::max(sequence.markLength + keep, sequence.reserved));
  return wants - std::min(wants, has);
}

Status Engine::rollBack(const k3rt_rollback_row *input, uint32_t count) {
  std::vector<uint32_t> indices;
  uint64_t pages = 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index;
    K3RT_RETURN_IF_ERROR(findSequence(input[i].sequence, index));
    const Sequence &sequence = sequences[index];
    if (!sequence.markSlot)
      return makeError(K3RT_INVALID_ARGUMENT,
                       "row %u: sequence %lld has no mark", i,
                       static_cast<long long>(input[i].sequence));
    uint64_t since = sequence.length() - sequence.markLength;
    if (input[i].keep > since)
      return makeError(K3RT_INVALID_ARGUMENT,
                       "row %u: %llu tokens to keep, %llu came after the mark",
                       i, Word(input[i].keep), Word(since));
    for (uint32_t before : indices)
      if (before == index)
        return makeError(K3RT_INVALID_ARGUMENT,
                         "row %u: sequence %lld is rolled back twice", i,
                         static_cast<long long>(input[i].sequence));
    indices.push_back(index);
    pages += pagesToRollBack(sequence, input[i].keep);
  }
  if (!makeRoom(pages))
    return makeError(K3RT_OUT_OF_MEMORY,
                     "the rollback needs %llu more cache pages, %s",
                     Word(pages), freePagesText().c_str());

  std::vector<std::vector<int32_t>> kept;
  std::vector<k3rt_batch_row> again;
  for (uint32_t i = 0; i < count; ++i) {
    Sequence &sequence = sequences[indices[i]];
    auto since = sequence.tokens.begin() + long(sequence.markLength);
    kept.emplace_back(since, since + long(input[i].keep));
    again.push_back({input[i].sequence, kept.back().data(), input[i].keep, -1});
    states.copySlot(*sequence.markSlot, sequence.holding.slot);
    states.setPages(sequence.holding, states.pagesFor(sequence.markLength));
    sequence.tokens.resize(sequence.markLength);
    sequence.failure.clear();
  }
  if (std::all_of(again.begin(), again.end(), [](const k3rt_batch_row &row) {
        return row.num_tokens == 0;
      }))
    return Status();
  k3rt_batch batch = {again.data(), count};
  k3rt_step_result unused;
  return step(batch, unused);
}

} // namespace k3rt
