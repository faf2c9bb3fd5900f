//===- GenerateCommand.cpp - k3-run MODEL PROMPT ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"

#include "tools/runtime/k3-run/TextSources.h"

#include <nlohmann/json.hpp>
#include <ostream>

namespace k3run {

namespace {
bool encodePrompt(const Options &options, const Engine &engine,
                  std::istream &in, std::vector<int32_t> &ids,
                  std::string &error) {
  std::string text;
  if (options.prompt)
    text = *options.prompt;
  else if (!readText(options.promptFile, in, text, error))
    return false;
  if (text.empty()) {
    error = "the prompt is empty";
    return false;
  }
  if (options.beginToken && engine.info().bos_token_id >= 0)
    ids.push_back(engine.info().bos_token_id);
  if (!engine.tokenizer().encode(text,
                                 options.promptSpecials
                                     ? k3rt::AllowSpecial::yes
                                     : k3rt::AllowSpecial::no,
                                 ids, error)) {
    error = (options.prompt ? "prompt" : options.promptFile) + ": " + error;
    return false;
  }
  return true;
}
} // namespace

bool runGenerate(const Options &options, Streams &streams,
                 std::string &error) {
  Engine engine;
  if (!engine.open(options, error) || !engine.needTokenizer(error))
    return false;
  std::vector<int32_t> prompt;
  if (!encodePrompt(options, engine, streams.in, prompt, error))
    return false;
  k3rt_sequence sequence = 0;
  if (!engine.createSequence(sequence, error))
    return false;
  DraftedSteps steps(engine, sequence, options.mostDrafted());
  PlainText source(engine.tokenizer());
  GenerationResult result;
  uint64_t length = 0;
  bool wrote = false;
  auto write = [&](const std::string &text) {
    if (options.json)
      return;
    streams.out << text << std::flush;
    wrote = true;
  };
  bool done = generate(engine, steps, length, prompt,
                       generationSettings(options, engine), source, write,
                       streams.start, result, error);
  if (!options.json && (wrote || done))
    streams.out << '\n' << std::flush;
  if (!done)
    return false;
  if (!options.json) {
    streams.err << statistics(result) << '\n';
    return true;
  }
  nlohmann::ordered_json json;
  json["text"] = result.text;
  json["tokens"] = result.tokens;
  json["finish_reason"] = result.finishReason;
  json["prompt_tokens"] = result.promptTokens;
  json["first_token_ms"] = result.firstTokenSeconds * 1e3;
  json["decode_tokens_per_s"] = result.decodeTokensPerSecond();
  json["drafted_tokens"] = result.draftedTokens;
  json["accepted_tokens"] = result.acceptedTokens;
  json["tokens_per_step"] =
      tokensPerStep(result.tokens.size(), result.acceptedTokens);
  k3rt_device_info device = engine.device();
  json["device"] = device.name ? device.name : "";
  if (device.products && *device.products)
    json["products"] = device.products;
  json["peak_rss_bytes"] = peakMemory();
  streams.out << json.dump() << '\n';
  return true;
}

} // namespace k3run
