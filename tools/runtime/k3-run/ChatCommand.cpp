//===- ChatCommand.cpp - k3-run chat ------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"

#include "runtime/src/text/Utf8.h"
#include "tools/runtime/k3-run/TextSources.h"

#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

namespace k3run {

namespace {
/// One conversation in one sequence: the model sees each message once.
class Conversation {
public:
  Conversation(const Options &options, Streams &streams)
      : options(options), streams(streams) {}

  bool open(std::string &error) {
    if (!engine.open(options, error) || !engine.needTokenizer(error))
      return false;
    std::optional<k3rt::ChatFormat> found =
        k3rt::detectChatFormat(engine.tokenizer());
    std::vector<int32_t> none;
    if (!found) {
      // The message of the library says what is missing.
      return k3rt::encodeChat(engine.tokenizer(), "[]", options.chat, none,
                              error);
    }
    format = *found;
    settings = generationSettings(options, engine);
    if (!options.ignoreEos)
      settings.stops.stopIds.push_back(
          k3rt::chatStopId(engine.tokenizer(), format));
    k3rt_sequence sequence = 0;
    if (!engine.createSequence(sequence, error))
      return false;
    steps.emplace(engine, sequence, options.mostDrafted());
    return true;
  }

  /// Answers `json`, messages from `where` that follow what was said so far.
  bool answer(const std::string &json, const std::string &where,
              Clock::time_point start,
              GenerationResult &result, AnswerText &source,
              std::string &error) {
    k3rt::ChatOptions chat = options.chat;
    chat.preamble = first;
    std::vector<int32_t> prompt = unfed;
    if (!k3rt::encodeChat(engine.tokenizer(), json, chat, prompt, error)) {
      error = where + ": " + error;
      return false;
    }
    auto write = [&](const std::string &text) {
      if (!options.json)
        streams.out << text << std::flush;
    };
    if (!generate(engine, *steps, length, prompt, settings, source, write,
                  start, result, error))
      return false;
    first = false;
    // The next message follows the end of this one, whether the model wrote it
    // or was cut short; the last token has not been fed yet.
    unfed.clear();
    int32_t end = k3rt::chatStopId(engine.tokenizer(), format);
    if (!result.tokens.empty())
      unfed.push_back(result.tokens.back());
    if (unfed.empty() || unfed.back() != end)
      unfed.push_back(end);
    return true;
  }

  AnswerText source(std::ostream *show) {
    return AnswerText(engine.tokenizer(), format, options.chat.thinking, show);
  }

private:
  const Options &options;
  Streams &streams;
  Engine engine;
  k3rt::ChatFormat format = k3rt::ChatFormat::kimiK3;
  GenerationSettings settings;
  std::optional<DraftedSteps> steps;
  uint64_t length = 0;
  bool first = true;
  std::vector<int32_t> unfed;
};

/// "thinking" in the file decides as the option does.
bool thinkingOf(const std::string &json, bool otherwise) {
  auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (parsed.is_object() && parsed.contains("thinking") &&
      parsed["thinking"].is_boolean())
    return parsed["thinking"].get<bool>();
  return otherwise;
}

bool answerFile(const Options &options, Streams &streams, std::string &error) {
  std::string json;
  if (!readText(options.messagesFile, streams.in, json, error))
    return false;
  Options adjusted = options;
  adjusted.chat.thinking = thinkingOf(json, options.chat.thinking);
  Conversation conversation(adjusted, streams);
  if (!conversation.open(error))
    return false;
  AnswerText source =
      conversation.source(options.json ? nullptr : &streams.err);
  GenerationResult result;
  if (!conversation.answer(json, options.messagesFile, streams.start, result,
                           source, error))
    return false;
  if (!options.json) {
    streams.out << '\n' << std::flush;
    streams.err << statistics(result) << '\n';
    return true;
  }
  nlohmann::ordered_json output;
  output["text"] = result.text;
  output["reasoning"] = source.reasoning;
  output["tool_calls_text"] = source.toolCalls;
  output["tokens"] = result.tokens;
  output["finish_reason"] = result.finishReason;
  output["prompt_tokens"] = result.promptTokens;
  output["first_token_ms"] = result.firstTokenSeconds * 1e3;
  output["decode_tokens_per_s"] = result.decodeTokensPerSecond();
  output["drafted_tokens"] = result.draftedTokens;
  output["accepted_tokens"] = result.acceptedTokens;
  output["tokens_per_step"] =
      tokensPerStep(result.tokens.size(), result.acceptedTokens);
  output["peak_rss_bytes"] = peakMemory();
  streams.out << output.dump() << '\n';
  return true;
}
} // namespace

bool runChat(const Options &options, Streams &streams, std::string &error) {
  if (!options.messagesFile.empty())
    return answerFile(options, streams, error);
  Conversation conversation(options, streams);
  if (!conversation.open(error))
    return false;
  if (streams.interactive)
    streams.err << "Type a message; an empty line or Ctrl-D ends.\n";
  nlohmann::json messages = nlohmann::json::array();
  if (!options.system.empty())
    messages.push_back({{"role", "system"}, {"content", options.system}});
  std::string line;
  while (true) {
    if (streams.interactive)
      streams.err << "> " << std::flush;
    if (!std::getline(streams.in, line) || line.empty())
      break;
    size_t invalid = k3rt::findInvalidUtf8(line);
    if (invalid != line.size()) {
      error = "the message is not valid UTF-8 at byte " +
              std::to_string(invalid);
      return false;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    AnswerText source = conversation.source(&streams.err);
    GenerationResult result;
    if (!conversation.answer(messages.dump(), "chat", Clock::now(), result,
                             source, error))
      return false;
    streams.out << '\n' << std::flush;
    streams.err << statistics(result) << '\n';
    messages.clear();
  }
  return true;
}

} // namespace k3run
