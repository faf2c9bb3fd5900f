//===- Generation.cpp - one continuation of a prompt --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Generation.h"

#include <algorithm>
#include <cstdio>
#include <random>

namespace k3run {

namespace {
double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
} // namespace

k3rt_sampling samplingOf(const k3rt::SamplerOptions &options) {
  k3rt_sampling sampling;
  k3rt_sampling_init(&sampling);
  sampling.temperature = options.greedy ? 0 : options.temperature;
  sampling.top_k = static_cast<uint32_t>(options.topK);
  sampling.top_p = options.topP;
  sampling.min_p = options.minP;
  sampling.repetition_penalty = options.repetitionPenalty;
  sampling.seed = options.seed;
  return sampling;
}

GenerationSettings generationSettings(const Options &options,
                                      const Engine &engine) {
  GenerationSettings settings;
  settings.sampler = options.sampler;
  settings.stops = options.stops;
  settings.maxTokens = options.maxTokens;
  if (!options.seedGiven) {
    std::random_device device;
    settings.sampler.seed = uint64_t(device()) << 32 | device();
  }
  settings.sampler.bannedIds = engine.tokenizer().neverSampledIds();
  if (!options.ignoreEos) {
    const k3rt_model_info &info = engine.info();
    settings.stops.stopIds.insert(settings.stops.stopIds.end(),
                                  info.eos_token_ids,
                                  info.eos_token_ids + info.num_eos_token_ids);
    // config.json names the end of a chat message; texts end with [EOS].
    if (std::optional<int32_t> end = engine.tokenizer().specialId("[EOS]"))
      settings.stops.stopIds.push_back(*end);
  }
  // An id the user wants to stop at can be sampled.
  auto &banned = settings.sampler.bannedIds;
  for (int32_t id : settings.stops.stopIds)
    for (size_t i = banned.size(); i-- > 0;)
      if (banned[i] == id)
        banned.erase(banned.begin() + static_cast<ptrdiff_t>(i));
  return settings;
}

double tokensPerStep(uint64_t tokens, uint64_t accepted) {
  if (tokens < 2)
    return 0;
  return static_cast<double>(tokens - 1) /
         static_cast<double>(tokens - 1 - std::min(accepted, tokens - 2));
}

bool generate(Engine &engine, DraftedSteps &steps, uint64_t &length,
              const std::vector<int32_t> &prompt,
              const GenerationSettings &settings, TextSource &source,
              const std::function<void(const std::string &)> &write,
              Clock::time_point start, GenerationResult &result,
              std::string &error) {
  k3rt::Sampler sampler;
  StoppedText answer;
  if (!sampler.init(settings.sampler, engine.info().vocab_size, error) ||
      !answer.init(source, settings.stops, error))
    return false;
  if (prompt.empty()) {
    error = "the prompt is empty";
    return false;
  }
  uint64_t context = engine.info().max_context;
  if (prompt.size() > context || length > context - prompt.size()) {
    error = "the prompt makes the sequence " +
            std::to_string(length + prompt.size()) +
            " tokens long, it has room for " + std::to_string(context) +
            " (see --context)";
    return false;
  }
  for (int32_t id : prompt)
    sampler.observe(id);
  uint64_t draftedBefore = steps.drafted(), acceptedBefore = steps.accepted();
  steps.observe(prompt);

  result.promptTokens = prompt.size();
  Clock::time_point begin = Clock::now();
  Next next;
  k3rt_sampling sampling = samplingOf(settings.sampler);
  k3rt_choice choice = {&sampling, settings.sampler.bannedIds.data(),
                        settings.sampler.bannedIds.size()};
  if (!engine.stepChoosing(steps.sequenceHandle(), prompt.data(),
                           prompt.size(), choice, next, error))
    return false;
  length += prompt.size();
  result.promptSeconds = seconds(begin, Clock::now());

  Clock::time_point first;
  std::string certain;
  auto give = [&] {
    if (!certain.empty())
      write(certain);
    certain.clear();
  };
  while (result.tokens.size() < settings.maxTokens) {
    int32_t id = next.token;
    if (id >= 0)
      sampler.take(id);
    else if (!sampler.sample(next.logits, id, error))
      return false;
    Clock::time_point now = Clock::now();
    if (result.tokens.empty()) {
      first = now;
      result.firstTokenSeconds = seconds(start, now);
    }
    result.tokens.push_back(id);
    result.decodeTokens = result.tokens.size() - 1;
    result.decodeSeconds = seconds(first, now);
    if (!answer.push(id, certain, error))
      return false;
    give();
    if (answer.stopped())
      break;
    if (result.tokens.size() == settings.maxTokens)
      break;
    if (length == context) {
      result.finishReason = "context";
      break;
    }
    ++length;
    uint64_t room = std::min<uint64_t>(
        settings.maxTokens - result.tokens.size() - 1, context - length);
    sampling.step = result.tokens.size();
    if (!steps.step(id, room, choice, next, error))
      return false;
  }
  if (!steps.settle(error))
    return false;
  result.draftedTokens = steps.drafted() - draftedBefore;
  result.acceptedTokens = steps.accepted() - acceptedBefore;
  answer.finish(certain);
  give();
  if (answer.stopped())
    result.finishReason = "stop";
  result.text = answer.text();
  return true;
}

std::string statistics(const GenerationResult &result) {
  char line[256];
  std::snprintf(line, sizeof(line),
                "%zu prompt tokens in %.3f s; first token after %.3f s; %zu "
                "tokens, %.1f tokens/s; ended by %s; %.0f MB",
                result.promptTokens, result.promptSeconds,
                result.firstTokenSeconds, result.tokens.size(),
                result.decodeTokensPerSecond(), result.finishReason,
                static_cast<double>(peakMemory()) / 1e6);
  if (result.draftedTokens == 0)
    return line;
  char drafts[128];
  std::snprintf(drafts, sizeof(drafts),
                "; %llu guesses, %llu right, %.2f tokens a step",
                static_cast<unsigned long long>(result.draftedTokens),
                static_cast<unsigned long long>(result.acceptedTokens),
                tokensPerStep(result.tokens.size(), result.acceptedTokens));
  return std::string(line) + drafts;
}

} // namespace k3run
