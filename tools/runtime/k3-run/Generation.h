//===- Generation.h - one continuation of a prompt ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_GENERATION_H
#define K3_TOOLS_K3RUN_GENERATION_H

#include "tools/runtime/k3-run/DraftedSteps.h"
#include "tools/runtime/k3-run/TextSources.h"

#include <chrono>
#include <functional>

namespace k3run {

using Clock = std::chrono::steady_clock;

struct GenerationResult {
  std::string text;
  /// Generated ids, with the stop id if one ended the answer.
  std::vector<int32_t> tokens;
  /// "stop" (id or text), "length" (--max-tokens) or "context" (sequence full).
  const char *finishReason = "length";
  size_t promptTokens = 0;
  double promptSeconds = 0;
  /// From the start of the program (or of the turn) to the first token.
  double firstTokenSeconds = 0;
  /// Tokens after the first and the time they took.
  size_t decodeTokens = 0;
  double decodeSeconds = 0;
  /// Tokens that were guessed, and those of them that were chosen.
  uint64_t draftedTokens = 0, acceptedTokens = 0;
  double decodeTokensPerSecond() const {
    return decodeSeconds > 0 ? static_cast<double>(decodeTokens) / decodeSeconds
                             : 0;
  }
};

/// Tokens that a step gave: of `tokens` in one answer, whose first is the
/// prompt's, `accepted` needed no step of their own. 0 if there was no step.
double tokensPerStep(uint64_t tokens, uint64_t accepted);

/// Sampling and stop settings of the command line with what the model adds: end
/// tokens and ids that are never sampled.
struct GenerationSettings {
  k3rt::SamplerOptions sampler;
  k3rt::StopOptions stops;
  uint64_t maxTokens = 0;
};
GenerationSettings generationSettings(const Options &options,
                                      const Engine &engine);

/// For the C API, without banned ids.
k3rt_sampling samplingOf(const k3rt::SamplerOptions &options);

/// Feeds `prompt` (at least one token) to the sequence of `steps`, then generates. `write`
/// gets text as soon as it is certain. `length` is the number of tokens the
/// sequence holds and is kept up to date: the last generated token is not fed.
[[nodiscard]] bool
generate(Engine &engine, DraftedSteps &steps, uint64_t &length,
         const std::vector<int32_t> &prompt, const GenerationSettings &settings,
         TextSource &source, const std::function<void(const std::string &)> &write,
         Clock::time_point start, GenerationResult &result, std::string &error);

/// The closing line of statistics.
std::string statistics(const GenerationResult &result);

} // namespace k3run

#endif // K3_TOOLS_K3RUN_GENERATION_H
