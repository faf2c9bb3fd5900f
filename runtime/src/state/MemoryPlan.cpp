//===- MemoryPlan.cpp - how much memory an engine takes ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/state/MemoryPlan.h"
#include "runtime/src/artifact/CheckArtifact.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/artifact/Inputs.h"
#include "runtime/src/artifact/Programs.h"
#include "runtime/src/artifact/WeightTensors.h"
#include "runtime/src/base/Memory.h"
#include "runtime/src/base/Process.h"

#include <algorithm>

namespace k3rt {

namespace schema = k3::artifact;
using Word = unsigned long long;

static constexpr uint32_t defaultSequences = 4;
static constexpr uint64_t defaultContext = 4096;
static constexpr uint32_t maxThreads = 1024;
static constexpr uint32_t maxSequencesLimit = 1u << 20;
/// Keeps sums of planned sizes inside 64 bits.
static constexpr uint64_t maxPoolBytes = uint64_t(1) << 56;

static Status invalid(const char *option, uint64_t value, uint64_t least,
                      uint64_t most) {
  return makeError(K3RT_INVALID_ARGUMENT, "%s is %llu (%llu to %llu)", option,
                   Word(value), Word(least), Word(most));
}

static Status chooseCounts(const schema::Artifact &index,
                           const EngineOptions &options, MemoryPlan &plan) {
  if (options.threads > maxThreads)
    return invalid("threads", options.threads, 0, maxThreads);
  plan.threads =
      options.threads ? options.threads : std::min(allowedCores(), maxThreads);
  if (options.maxSequences > maxSequencesLimit)
    return invalid("max_sequences", options.maxSequences, 0, maxSequencesLimit);
  plan.slots = options.maxSequences ? options.maxSequences : defaultSequences;

  uint64_t modelContext = index.model()->max_position_embeddings();
  if (modelContext == 0)
    modelContext = INT32_MAX;
  if (options.maxContext > modelContext)
    return makeError(K3RT_INVALID_ARGUMENT,
                     "max_context is %llu, the model's limit is %llu",
                     Word(options.maxContext), Word(modelContext));
  plan.maxContext = options.maxContext ? options.maxContext
                                       : std::min(defaultContext, modelContext);

  uint32_t maxTokens =
      findProgram(index, schema::Phase::Prefill, options.device)->max_tokens();
  if (options.prefillWindow > maxTokens)
    return invalid("prefill_window", options.prefillWindow, 0, maxTokens);
  plan.prefillWindow =
      options.prefillWindow ? options.prefillWindow : maxTokens;
  return Status();
}

static uint64_t bytesOf(const schema::State &state) {
  uint64_t bytes = elementBytes(state.dtype());
  for (int64_t size : *state.shape())
    bytes *= uint64_t(size);
  return bytes;
}

/// States whose shape is absent are scalars.
static void addStates(const schema::Artifact &index, MemoryPlan &plan) {
  if (!index.states())
    return;
  for (const auto *state : *index.states()) {
    uint64_t bytes =
        state->shape() ? bytesOf(*state) : elementBytes(state->dtype());
    switch (state->kind()) {
    case schema::StateKind::Kda:
      plan.recurrentPerSequence += bytes;
      break;
    case schema::StateKind::Conv:
      plan.convPerSequence += bytes;
      break;
    case schema::StateKind::KvCache:
      plan.pageTokens = state->page_tokens();
      plan.kvPerToken += bytes / state->page_tokens();
      continue;
    }
    plan.statePool += alignTo(bytes * plan.slots, bufferAlignment);
  }
}

SymbolValues largestStep(const schema::Program &program,
                         const MemoryPlan &plan) {
  SymbolValues values =
      largestStep(program, plan.slots, plan.pages, plan.pagesPerSequence);
  bool takesWindows =
      program.phase() == schema::Phase::Prefill || program.exact();
  auto limit = [&values](Symbol symbol, uint64_t to) {
    values[symbol] = int64_t(std::min(uint64_t(values[symbol]), to));
  };
  limit(Symbol::sequences, plan.slots);
  auto sequences = uint64_t(values[Symbol::sequences]);
  uint64_t rows = takesWindows ? plan.prefillWindow : plan.slots;
  uint64_t each = takesWindows ? std::min(plan.maxContext, rows) : 1;
  limit(Symbol::rows, std::min(rows, sequences * each));
  for (Symbol symbol : {Symbol::sequences, Symbol::logitRows})
    limit(symbol, uint64_t(values[Symbol::rows]));
  limit(Symbol::chunks,
        uint64_t(maxChunks(values[Symbol::rows], values[Symbol::sequences],
                           program.chunk_rows())));
  return values;
}

ArenaLayout planArena(const schema::Program &program, const MemoryPlan &plan) {
  // Kernels of GPUs may read whole tiles, behind the rows of a step.
  return layOutArena(program, plan.onGpu
                                  ? largestStep(program, 1, 1, 1)
                                  : largestStep(program, plan));
}

static void addPrograms(const schema::Artifact &index,
                        const EngineOptions &options, MemoryPlan &plan) {
  const DeviceName &device = options.device;
  uint64_t width = index.model()->vocab_size() * sizeof(float);
  plan.onGpu = !device.isCpu();
  uint64_t mostIds = 0;
  for (const auto *program : *index.programs()) {
    if (program->executable_kind() != executableKind(device))
      continue;
    SymbolValues largest = largestStep(*program, plan);
    plan.banSets = numBanSets(*program); // the same in all
    // Deterministic runs are the exact decode program's alone.
    if (!options.deterministic || plan.onGpu ||
        program->phase() == schema::Phase::Decode)
      plan.arena =
          std::max(plan.arena, planArena(*program, plan).bytes);
    uint64_t inputs = 0;
    for (size_t i = 0; i < numStepInputs; ++i)
      inputs += alignTo(uint64_t(inputShape(Input(i), largest).elements()) *
                            sizeof(int32_t),
                        bufferAlignment);
    plan.inputs += inputs;
    uint64_t rows = uint64_t(largest[Symbol::logitRows]);
    mostIds = std::max(mostIds, rows);
    if (plan.onGpu || width % bufferAlignment != 0)
      plan.runLogits = std::max(plan.runLogits, rows * width);
    plan.stepLogits =
        std::max(plan.stepLogits, std::max<uint64_t>(rows, plan.slots) * width);
  }
  if (plan.banSets != 0)
    plan.sampling =
        sizeof(int32_t) *
        (uint64_t(plan.banSets) * banWords(index.model()->vocab_size()) +
         mostIds);
  if (index.kernels() && device.isCpu())
    for (const auto *kernel : *index.kernels())
      plan.scratchPerThread =
          std::max<uint64_t>(plan.scratchPerThread,
                             alignTo(kernel->scratch_bytes(), bufferAlignment));
}

std::string MemoryPlan::parts() const {
  std::string text;
  if (weights != 0)
    text = formatText("weights %llu, ", Word(weights));
  text += formatText("states %llu, arena %llu", Word(statePool), Word(arena));
  if (kvPool != 0)
    text += formatText(", cache %llu", Word(kvPool));
  return text;
}

static Status tooLarge(const MemoryPlan &plan) {
  return makeError(K3RT_OUT_OF_MEMORY,
                   "%u sequences of %llu tokens need more than %llu bytes",
                   plan.slots, Word(plan.maxContext), Word(maxPoolBytes));
}

Status planMemory(const schema::Artifact &index, const EngineOptions &options,
                  MemoryPlan &out) {
  MemoryPlan plan;
  K3RT_RETURN_IF_ERROR(checkHasPrograms(index, options.device));
  K3RT_RETURN_IF_ERROR(chooseCounts(index, options, plan));
  // checkArtifact limits all states together to 2^48 bytes,
  // options.maxSequences is at most 2^20: only their product may be too much.
  uint64_t product;
  MemoryPlan one = plan;
  one.slots = 1;
  addStates(index, one);
  if (__builtin_mul_overflow(one.statePool, uint64_t(plan.slots), &product) ||
      product > maxPoolBytes)
    return tooLarge(plan);
  addStates(index, plan);

  uint64_t wantedPages = 1;
  if (plan.pageTokens != 0) {
    uint64_t perSequence =
        (plan.maxContext + plan.pageTokens - 1) / plan.pageTokens;
    wantedPages = perSequence * plan.slots;
    if (wantedPages > uint64_t(INT32_MAX) ||
        __builtin_mul_overflow(wantedPages, plan.pageBytes(), &product) ||
        product > maxPoolBytes)
      return tooLarge(plan);
    plan.pagesPerSequence = uint32_t(perSequence);
  }
  plan.pages = uint32_t(wantedPages);
  addPrograms(index, options, plan);
  if (!options.device.isCpu())
    plan.weights = deviceWeightBytes(index);
  if (plan.weights > maxPoolBytes)
    return makeError(K3RT_OUT_OF_MEMORY, "more than %llu bytes of weights",
                     Word(maxPoolBytes));

  if (options.memoryLimit != 0 && plan.pageTokens != 0) {
    uint64_t fixed = plan.total();
    uint64_t least = fixed + plan.slots * plan.pageBytes();
    if (least > options.memoryLimit)
      return makeError(K3RT_OUT_OF_MEMORY,
                       "memory_limit is %llu bytes, but %u sequences need %llu "
                       "at least (%s)",
                       Word(options.memoryLimit), plan.slots, Word(least),
                       plan.parts().c_str());
    wantedPages = std::min<uint64_t>(
        wantedPages, (options.memoryLimit - fixed) / plan.pageBytes());
    plan.pages = uint32_t(wantedPages);
  }
  plan.kvPool = wantedPages * plan.pageBytes();
  if (options.memoryLimit != 0 && plan.total() > options.memoryLimit)
    return makeError(K3RT_OUT_OF_MEMORY,
                     "memory_limit is %llu bytes, but %u sequences need %llu "
                     "(%s)",
                     Word(options.memoryLimit), plan.slots, Word(plan.total()),
                     plan.parts().c_str());
  out = plan;
  return Status();
}

uint64_t planCapacity(const schema::Artifact &index,
                      const EngineOptions &options, uint64_t tokens) {
  auto fits = [&](uint64_t sequences) {
    EngineOptions asked = options;
    asked.maxSequences = uint32_t(sequences);
    asked.maxContext = tokens;
    MemoryPlan plan;
    return planMemory(index, asked, plan).ok() &&
           plan.pages >= plan.pagesFor(tokens) * sequences;
  };
  uint64_t most = 0, tooMany = uint64_t(maxSequencesLimit) + 1;
  while (tooMany - most > 1) {
    uint64_t middle = most + (tooMany - most) / 2;
    (fits(middle) ? most : tooMany) = middle;
  }
  return most;
}

} // namespace k3rt
