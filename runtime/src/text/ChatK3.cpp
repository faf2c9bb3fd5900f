//===- ChatK3.cpp - Kimi K3 prompt format -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/ChatRender.h"

#include <algorithm>
#include <tuple>

namespace k3rt {

namespace {
using Attributes = std::vector<std::pair<std::string_view, std::string>>;

/// One argument of a tool call, ready to write.
struct Argument {
  std::string key;
  const char *type;
  std::string text;
};

class K3Renderer {
public:
  K3Renderer(const Chat &chat, SegmentWriter &out, std::string &error)
      : chat(chat), out(out), error(error) {}
  bool render();

private:
  void open(std::string_view tag, const Attributes &attributes = {});
  void close(std::string_view tag);
  void closeMessage();
  void internalMessage(const char *type, const std::string &body);
  void declareTools(const Json &tools, bool further);
  void conversationMessage(const ChatMessage &message);
  bool assistantMessage(const ChatMessage &message, size_t number);
  bool toolCall(const ToolCall &call, size_t index, const std::string &where);
  bool toolRun(size_t first, size_t last);

  const Chat &chat;
  SegmentWriter &out;
  std::string &error;
  // Calls of the last assistant message and results seen since.
  const std::vector<ToolCall> *calls = nullptr;
  size_t results = 0;
};

void K3Renderer::open(std::string_view tag, const Attributes &attributes) {
  out.control("<|open|>");
  out.ordinary(tag);
  for (const auto &[key, value] : attributes) {
    out.ordinary(" " + std::string(key));
    out.ordinary("=\"");
    std::string escaped;
    for (char c : value)
      escaped += c == '&'   ? std::string("&amp;")
                 : c == '"' ? std::string("&quot;")
                            : std::string(1, c);
    out.ordinary(escaped);
    out.ordinary("\"");
  }
  out.control("<|sep|>");
}

void K3Renderer::close(std::string_view tag) {
  out.control("<|close|>");
  out.ordinary(tag);
  out.control("<|sep|>");
}

void K3Renderer::closeMessage() {
  close("message");
  out.control("<|end_of_msg|>");
}

void K3Renderer::internalMessage(const char *type, const std::string &body) {
  open("message", {{"role", "system"}, {"type", type}});
  out.ordinary(trim(body));
  closeMessage();
}

void K3Renderer::declareTools(const Json &tools, bool further) {
  std::string head =
      further ? "## New Tools Available\nThe system dynamically extends the "
                "toolset via lazy-loading.\nYou have access to all existing and "
                "extended tools.\nHere are the specs for the extended tools."
              : "# Tools\nHere are the available tools, described in "
                "JSONSchema.";
  internalMessage("tool-declare",
                  head + "\n\n```json\n" +
                      dumpJson(sortKeys(tools), JsonStyle::compact) + "\n```");
}

void K3Renderer::conversationMessage(const ChatMessage &message) {
  Attributes attributes = {{"role", message.role}};
  if (!message.name.empty())
    attributes.push_back({"name", message.name});
  open("message", attributes);
  for (const std::string &part : message.content)
    out.ordinary(part);
  closeMessage();
}

const char *typeOf(const Json &value) {
  if (value.is_boolean())
    return "boolean";
  if (value.is_number())
    return "number";
  if (value.is_string())
    return "string";
  if (value.is_array())
    return "array";
  return value.is_object() ? "object" : "null";
}

/// Finds the spelling of each value in `text`, a JSON object known to be valid.
class ArgumentScanner {
public:
  explicit ArgumentScanner(std::string_view text) : text(text) {
    // The JSON parser skips a byte order mark.
    if (text.substr(0, 3) == "\xEF\xBB\xBF")
      at = 3;
  }

  std::vector<Argument> scan() {
    std::vector<Argument> arguments;
    skipSpace();
    ++at; // {
    skipSpace();
    while (text[at] != '}') {
      std::string_view key = value();
      skipSpace();
      ++at; // :
      skipSpace();
      std::string_view spelling = value();
      Json parsed = Json::parse(spelling, nullptr, false);
      arguments.push_back(
          {unquote(key), typeOf(parsed),
           parsed.is_string() ? unquote(spelling) : std::string(spelling)});
      skipSpace();
      if (text[at] == ',')
        ++at;
      skipSpace();
    }
    return arguments;
  }

private:
  static std::string unquote(std::string_view quoted) {
    Json parsed = Json::parse(quoted, nullptr, false);
    return *parsed.get_ptr<const Json::string_t *>();
  }
  void skipSpace() {
    while (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' ||
           text[at] == '\r')
      ++at;
  }
  void skipString() {
    for (++at; text[at] != '"'; ++at)
      if (text[at] == '\\')
        ++at;
    ++at;
  }
  std::string_view value() {
    size_t start = at;
    int depth = 0;
    do {
      char c = text[at];
      if (c == '"') {
        skipString();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at;
      } else if (depth > 0) {
        ++at;
      } else {
        at = text.find_first_of(" \t\n\r,}]", at);
      }
    } while (depth > 0);
    return text.substr(start, at - start);
  }

  std::string_view text;
  size_t at = 0;
};

bool K3Renderer::toolCall(const ToolCall &call, size_t index,
                          const std::string &where) {
  open("call", {{"tool", call.name}, {"index", std::to_string(index)}});
  std::vector<Argument> arguments;
  bool raw = false;
  if (call.arguments.is_object()) {
    for (auto it = call.arguments.begin(); it != call.arguments.end(); ++it)
      arguments.push_back(
          {it.key(), typeOf(it.value()),
           it.value().is_string()
               ? *it.value().get_ptr<const Json::string_t *>()
               : dumpJson(it.value(), JsonStyle::spaced)});
  } else if (call.arguments.is_string()) {
    const std::string &text = *call.arguments.get_ptr<const Json::string_t *>();
    Json parsed;
    std::string ignored;
    if (trim(text).empty()) {
      // no arguments
    } else if (!parseJson(text, parsed, ignored)) {
      raw = true;
    } else if (parsed.is_object()) {
      arguments = ArgumentScanner(text).scan();
    } else {
      error = where + ": 'arguments' of call to '" + call.name +
              "' must be a JSON object, got " + parsed.type_name();
      return false;
    }
    if (raw) {
      open("json", {{"type", "object"}});
      out.ordinary(text);
      close("json");
    }
  }
  for (const Argument &argument : arguments) {
    open("argument", {{"key", argument.key}, {"type", argument.type}});
    out.ordinary(argument.text);
    close("argument");
  }
  close("call");
  return true;
}

bool K3Renderer::assistantMessage(const ChatMessage &message, size_t number) {
  Attributes attributes = {{"role", "assistant"}};
  if (!message.name.empty())
    attributes.push_back({"name", message.name});
  open("message", attributes);
  if (chat.thinking) {
    open("think");
    if (!trim(message.reasoning).empty())
      out.ordinary(message.reasoning);
    close("think");
  }
  open("response");
  for (const std::string &part : message.content)
    out.ordinary(part);
  close("response");
  if (!message.toolCalls.empty()) {
    open("tools");
    for (size_t i = 0; i < message.toolCalls.size(); ++i)
      if (!toolCall(message.toolCalls[i], i + 1,
                    "message " + std::to_string(number)))
        return false;
    close("tools");
  }
  closeMessage();
  calls = &message.toolCalls;
  results = 0;
  return true;
}

/// Writes messages [first, last), a run of tool messages.
bool K3Renderer::toolRun(size_t first, size_t last) {
  struct Result {
    size_t message, call;
  };
  size_t callCount = calls ? calls->size() : 0;
  std::vector<Result> run;
  bool allMatch = true;
  for (size_t i = first; i < last; ++i) {
    const std::string &id = chat.messages[i].toolCallId;
    size_t call = 0;
    while (call < callCount && (id.empty() || (*calls)[call].id != id))
      ++call;
    allMatch &= call < callCount;
    run.push_back({i, call});
  }
  if (allMatch)
    std::sort(run.begin(), run.end(), [](const Result &a, const Result &b) {
      return std::tie(a.call, a.message) < std::tie(b.call, b.message);
    });
  for (const Result &result : run) {
    const ChatMessage &message = chat.messages[result.message];
    ++results;
    std::string name;
    if (allMatch)
      name = (*calls)[result.call].name;
    else if (!message.tool.empty())
      name = message.tool;
    else if (!message.name.empty())
      name = message.name;
    else if (results <= callCount)
      name = (*calls)[results - 1].name;
    if (name.empty()) {
      error = "message " + std::to_string(result.message + 1) +
              ": cannot tell which tool this result is from; give it 'name' or "
              "the 'tool_call_id' of a call";
      return false;
    }
    open("message", {{"role", "tool"},
                     {"tool", name},
                     {"index", std::to_string(results)}});
    for (const std::string &part : message.content)
      out.ordinary(part);
    closeMessage();
  }
  return true;
}

bool K3Renderer::render() {
  if (chat.preamble && !chat.tools.empty())
    declareTools(chat.tools, false);
  if (chat.preamble && chat.thinking)
    internalMessage(
        "thinking-effort",
        "`thinking_effort` guides on how much to think in your thinking channel "
        "(not including the response channel), supported values include `low`, "
        "`medium`, `high`, and `max`.\nNow the system is invoked with "
        "`thinking_effort=" +
            chat.thinkingEffort + "`.");
  for (size_t i = 0; i < chat.messages.size();) {
    const ChatMessage &message = chat.messages[i];
    if (message.role == "tool") {
      size_t last = i;
      while (last < chat.messages.size() && chat.messages[last].role == "tool")
        ++last;
      if (!toolRun(i, last))
        return false;
      i = last;
      continue;
    }
    if (message.role == "assistant") {
      if (!assistantMessage(message, i + 1))
        return false;
    } else if (!message.tools.empty()) {
      declareTools(message.tools, true);
      bool empty = std::all_of(message.content.begin(), message.content.end(),
                               [](const std::string &s) { return s.empty(); });
      if (!empty)
        conversationMessage(message);
    } else {
      conversationMessage(message);
    }
    ++i;
  }
  if (chat.toolChoice == "required")
    internalMessage("tool-choice",
                    "The system is invoked with `tool_choice=required`.\nYou "
                    "MUST call tools in the next message.");
  else if (chat.toolChoice == "none")
    internalMessage("tool-choice",
                    "The system is invoked with `tool_choice=none`.\nYou MUST "
                    "NOT call any tools in the next message.");
  if (chat.responseType == "json_object" ||
      chat.responseType == "json_schema") {
    std::string body = "The system is invoked with `response_format=" +
                       chat.responseType +
                       "`.\nYour response must be raw JSON data without "
                       "markdown code blocks (```json) or any additional "
                       "formatting.";
    if (chat.responseType == "json_schema")
      body += "\nThe JSON data must match the following schema:\n```json\n" +
              dumpJson(sortKeys(chat.responseSchema), JsonStyle::compact) +
              "\n```";
    internalMessage("response-format", body);
  }
  if (chat.generationPrompt) {
    open("message", {{"role", "assistant"}});
    open(chat.thinking ? "think" : "response");
  }
  return true;
}
} // namespace

bool renderK3(const Chat &chat, SegmentWriter &out, std::string &error) {
  return K3Renderer(chat, out, error).render();
}

} // namespace k3rt
