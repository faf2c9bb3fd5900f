//===- BatchRequest.cpp - a line of the input of k3-run batch -----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/BatchRequest.h"

#include "runtime/src/text/Utf8.h"

#include <cstdio>
#include <limits>

namespace k3run {

namespace {
using Json = nlohmann::ordered_json;

/// Reads the fields of one object; the first that is wrong ends it.
class Reader {
public:
  Reader(const Json &object, std::string &error)
      : object(object), error(error) {}

  bool failed() const { return bad; }

  void number(const char *name, float &value) {
    if (const Json *field = take(name); field && !bad)
      field->is_number() ? void(value = field->get<float>())
                         : fail(name, "a number", *field);
  }
  template <typename Integer>
  void whole(const char *name, Integer &value, uint64_t least = 0) {
    const Json *field = take(name);
    if (!field || bad)
      return;
    if (!field->is_number_unsigned() || field->get<uint64_t>() < least ||
        field->get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<Integer>::max()))
      return fail(name, least == 0 ? "a whole number" : "a number from 1 on",
                  *field);
    value = static_cast<Integer>(field->get<uint64_t>());
  }
  void priority(const char *name, int32_t &value) {
    const Json *field = take(name);
    if (!field || bad)
      return;
    if (!field->is_number_integer() || field->get<int64_t>() < INT32_MIN ||
        field->get<int64_t>() > INT32_MAX)
      return fail(name, "a whole number", *field);
    value = static_cast<int32_t>(field->get<int64_t>());
  }
  bool flag(const char *name, bool otherwise) {
    const Json *field = take(name);
    if (field && !field->is_boolean())
      fail(name, "true or false", *field);
    return field && !bad ? field->get<bool>() : otherwise;
  }
  /// A text, or several.
  void texts(const char *name, std::vector<std::string> &values) {
    const Json *field = take(name);
    if (!field || bad)
      return;
    values.clear();
    for (const Json &one : field->is_array() ? *field : Json::array({*field})) {
      if (!one.is_string() || one.get_ref<const std::string &>().empty())
        return fail(name, "a text that is not empty, or an array of such",
                    *field);
      values.push_back(one.get<std::string>());
    }
  }
  void ids(const char *name, uint32_t vocab, std::vector<int32_t> &values) {
    const Json *field = take(name);
    if (!field || bad)
      return;
    values.clear();
    if (!field->is_array())
      return fail(name, "an array of token ids", *field);
    for (const Json &one : *field) {
      if (!one.is_number_unsigned() || one.get<uint64_t>() >= vocab)
        return fail(name,
                    ("token ids below " + std::to_string(vocab)).c_str(), one);
      values.push_back(one.get<int32_t>());
    }
  }
  const Json *take(const char *name) {
    auto found = object.find(name);
    if (found == object.end())
      return nullptr;
    ++used;
    return &*found;
  }
  /// All fields must have been taken.
  bool finish(const char *const *names, size_t count) {
    if (bad || used == object.size())
      return !bad;
    for (const auto &[name, value] : object.items()) {
      bool known = false;
      for (size_t i = 0; i < count; ++i)
        known |= name == names[i];
      if (!known) {
        error = "unknown field " + Json(name).dump();
        return false;
      }
    }
    return true;
  }
  void fail(const char *name, const char *wanted, const Json &got) {
    if (bad)
      return;
    bad = true;
    std::string text = got.dump(-1, ' ', true);
    constexpr size_t most = 40;
    if (text.size() > most)
      text = text.substr(0, most) + "...";
    error = std::string(name) + " must be " + wanted + ", got " + text;
  }

private:
  const Json &object;
  std::string &error;
  size_t used = 0;
  bool bad = false;
};

constexpr const char *fieldNames[] = {
    "id",          "prompt",        "tokens",      "messages",
    "tools",       "tool_choice",   "response_format", "thinking",
    "thinking_effort", "specials",  "bos",         "max_tokens",
    "greedy",      "temperature",   "top_k",       "top_p",
    "min_p",       "repetition_penalty", "seed",   "stop",
    "stop_ids",    "ignore_eos",    "priority"};
constexpr const char *chatFields[] = {"messages",        "tools",
                                      "tool_choice",     "response_format",
                                      "thinking",        "thinking_effort"};

/// Exactly one of prompt, tokens and messages says what to continue.
bool encodePrompt(const Json &object, const Options &options,
                  const Engine &engine, BatchRequest &request,
                  std::string &error) {
  bool hasText = object.contains("prompt"), hasIds = object.contains("tokens"),
       hasChat = object.contains("messages");
  if (hasText + hasIds + hasChat != 1) {
    error = "one of prompt, tokens and messages must be there";
    return false;
  }
  if (hasChat) {
    Json chat = Json::object();
    for (const char *name : chatFields)
      if (object.contains(name))
        chat[name] = object[name];
    request.isChat = true;
    request.thinking = options.chat.thinking;
    return k3rt::encodeChat(engine.tokenizer(), chat.dump(), options.chat,
                            request.prompt, error);
  }
  for (const char *name : chatFields)
    if (object.contains(name)) {
      error = std::string(name) + " belongs to messages";
      return false;
    }
  if (hasIds)
    return true; // read with the other fields
  if (!object["prompt"].is_string()) {
    error = "prompt must be a text";
    return false;
  }
  const auto &text = object["prompt"].get_ref<const std::string &>();
  if (text.empty()) {
    error = "the prompt is empty";
    return false;
  }
  if (options.beginToken && engine.info().bos_token_id >= 0)
    request.prompt.push_back(engine.info().bos_token_id);
  return engine.tokenizer().encode(text,
                                   options.promptSpecials
                                       ? k3rt::AllowSpecial::yes
                                       : k3rt::AllowSpecial::no,
                                   request.prompt, error);
}
} // namespace

std::string hashBatchLine(const std::string &line, const Options &options) {
  uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
  auto add = [&hash](const std::string &text) {
    for (char byte : text)
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    hash = (hash ^ 0xff) * 0x100000001b3u;
  };
  add(line);
  const k3rt::SamplerOptions &sampler = options.sampler;
  Json rest = {sampler.greedy,
               sampler.temperature,
               sampler.topK,
               sampler.topP,
               sampler.minP,
               sampler.repetitionPenalty,
               options.seedGiven ? Json(sampler.seed) : Json(),
               options.maxTokens,
               options.ignoreEos,
               options.promptSpecials,
               options.beginToken,
               options.stops.stopIds,
               options.stops.stopStrings,
               options.chat.thinking,
               options.chat.thinkingEffort};
  add(rest.dump(-1, ' ', false, Json::error_handler_t::replace));
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

bool readBatchRequest(const std::string &line, const Options &options,
                      const Engine &engine, BatchRequest &request,
                      std::string &error) {
  size_t invalid = k3rt::findInvalidUtf8(line);
  if (invalid != line.size()) {
    error = "not valid UTF-8 at byte " + std::to_string(invalid);
    return false;
  }
  Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    error = object.is_discarded() ? "not valid JSON" : "not a JSON object";
    return false;
  }
  request.hash = hashBatchLine(line, options);
  Options own = options;
  Reader reader(object, error);
  if (const Json *id = reader.take("id"))
    request.id = *id;
  for (const char *name : {"prompt", "messages", "tools", "tool_choice",
                           "response_format", "thinking_effort"})
    reader.take(name);
  uint32_t vocab = engine.info().vocab_size;
  reader.ids("tokens", vocab, request.prompt);
  own.chat.thinking = reader.flag("thinking", options.chat.thinking);
  own.promptSpecials = reader.flag("specials", options.promptSpecials);
  own.beginToken = reader.flag("bos", options.beginToken);
  own.ignoreEos = reader.flag("ignore_eos", options.ignoreEos);
  own.sampler.greedy = reader.flag("greedy", options.sampler.greedy);
  reader.whole("max_tokens", own.maxTokens, 1);
  reader.number("temperature", own.sampler.temperature);
  reader.whole("top_k", own.sampler.topK);
  reader.number("top_p", own.sampler.topP);
  reader.number("min_p", own.sampler.minP);
  reader.number("repetition_penalty", own.sampler.repetitionPenalty);
  own.seedGiven |= object.contains("seed");
  reader.whole("seed", own.sampler.seed);
  reader.texts("stop", own.stops.stopStrings);
  reader.ids("stop_ids", vocab, own.stops.stopIds);
  reader.priority("priority", request.priority);
  if (!reader.finish(fieldNames, std::size(fieldNames)) ||
      !encodePrompt(object, own, engine, request, error))
    return false;
  if (request.prompt.empty()) {
    error = "the prompt is empty";
    return false;
  }
  request.settings = generationSettings(own, engine);
  if (request.isChat && !own.ignoreEos)
    request.settings.stops.stopIds.push_back(k3rt::chatStopId(
        engine.tokenizer(), *k3rt::detectChatFormat(engine.tokenizer())));
  k3rt::Sampler sampler;
  return sampler.init(request.settings.sampler, vocab, error);
}

} // namespace k3run
