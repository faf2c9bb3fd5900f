//===- StepInputs.cpp - the i32 inputs of a program run ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/StepInputs.h"
#include "runtime/src/artifact/CheckArtifact.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace k3rt {

static uint64_t inputBytes(Input input, const SymbolValues &largest) {
  return alignTo(uint64_t(inputShape(input, largest).elements()) *
                     sizeof(int32_t),
                 bufferAlignment);
}

Status StepInputs::init(const k3::artifact::Program &program,
                        const MemoryPlan &plan, Device &on,
                        int32_t *banned) {
  device = &on;
  bannedSets = banned;
  chunkRows = program.chunk_rows();
  counts[Symbol::slots] = plan.slots;
  counts[Symbol::pages] = plan.pages;
  counts[Symbol::pagesPerSequence] = plan.pagesPerSequence;
  SymbolValues largest = largestStep(program, plan);
  uint64_t bytes = 0;
  for (size_t i = 0; i < numStepInputs; ++i)
    bytes += inputBytes(Input(i), largest);
  K3RT_RETURN_IF_ERROR(memory.allocate(bytes, "step inputs"));
  char *next = memory.data();
  for (size_t i = 0; i < numStepInputs; ++i) {
    inputs[i] = reinterpret_cast<int32_t *>(next);
    next += inputBytes(Input(i), largest);
  }
  inputs[size_t(Input::banned)] = banned;
  if (on.isHost())
    return Status();
  K3RT_RETURN_IF_ERROR(packed.allocate(on, bytes, "step inputs",
                                       DeviceBuffer::Place::host));
  return sent.allocate(on, bytes, "step inputs");
}

InputAddresses StepInputs::addressesFor(const SymbolValues &values) const {
  if (device->isHost())
    return inputs;
  InputAddresses out;
  char *next = sent.data();
  for (size_t i = 0; i < numStepInputs; ++i) {
    out[i] = reinterpret_cast<int32_t *>(next);
    next += inputBytes(Input(i), values);
  }
  out[size_t(Input::banned)] = bannedSets;
  return out;
}

InputAddresses StepInputs::send() {
  InputAddresses addresses = addressesFor(counts);
  if (device->isHost())
    return addresses;
  uint64_t bytes = 0;
  for (size_t i = 0; i < numStepInputs; ++i) {
    memcpy(packed.data() + bytes, inputs[i],
           uint64_t(inputShape(Input(i), counts).elements()) *
               sizeof(int32_t));
    bytes += inputBytes(Input(i), counts);
  }
  device->upload(sent.data(), packed.data(), bytes);
  return addresses;
}

void StepInputs::poison() {
  memset(memory.data(), 0xff, memory.size());
  if (device->isHost())
    return;
  memset(packed.data(), 0xff, packed.size());
  device->fill(sent.data(), 0xff, sent.size());
}

void StepInputs::begin() {
  counts[Symbol::rows] = 0;
  counts[Symbol::sequences] = 0;
  counts[Symbol::chunks] = 0;
  counts[Symbol::logitRows] = 0;
}

void StepInputs::add(const SequenceView &sequence, const int32_t *tokens,
                     uint32_t count, uint32_t logitRows,
                     const SamplingWords *sampling) {
  // Kernels do not look: another slot or page than its own is another sequence.
  assert(sequence.slot < counts[Symbol::slots] && "there is such a slot");
  assert(std::all_of(sequence.pages, sequence.pages + sequence.numPages,
                     [this](int32_t page) {
                       return page >= 0 && page < counts[Symbol::pages];
                     }) &&
         "there are such pages");
  assert(sequence.numPages <= counts[Symbol::pagesPerSequence] &&
         "the table has room for them");
  int64_t n = counts[Symbol::sequences]++;
  auto firstRow = int32_t(counts[Symbol::rows]);
  std::copy(tokens, tokens + count, at(Input::tokens) + firstRow);
  at(Input::cu)[n] = firstRow;
  at(Input::slots)[n] = int32_t(sequence.slot);
  at(Input::lengths)[n] = int32_t(sequence.length);
  std::copy(sequence.pages, sequence.pages + sequence.numPages,
            at(Input::pageTable) + n * counts[Symbol::pagesPerSequence]);
  at(Input::chunkCu)[n] = int32_t(counts[Symbol::chunks]);
  if (chunkRows != 0)
    for (uint32_t first = 0; first < count; first += chunkRows) {
      int32_t *chunk = at(Input::chunks) + 2 * counts[Symbol::chunks]++;
      chunk[0] = firstRow + int32_t(first);
      chunk[1] = int32_t(std::min(chunkRows, count - first));
    }
  static const SamplingWords nothing = {};
  for (uint32_t row = count - logitRows; row < count; ++row) {
    int64_t r = counts[Symbol::logitRows]++;
    at(Input::logitRows)[r] = firstRow + int32_t(row);
    const SamplingWords &words =
        sampling ? sampling[row - (count - logitRows)] : nothing;
    std::copy(words.begin(), words.end(),
              at(Input::sampling) + r * samplingWords);
  }
  counts[Symbol::rows] += count;
}

void StepInputs::finish() {
  int64_t n = counts[Symbol::sequences];
  at(Input::cu)[n] = int32_t(counts[Symbol::rows]);
  at(Input::chunkCu)[n] = int32_t(counts[Symbol::chunks]);
}

} // namespace k3rt
