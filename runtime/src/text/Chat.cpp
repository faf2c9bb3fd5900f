//===- Chat.cpp - messages to prompt tokens -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Chat.h"

#include "runtime/src/text/ChatRender.h"

namespace k3rt {

namespace {
constexpr const char *k3Controls[] = {"<|open|>", "<|close|>", "<|sep|>",
                                      "<|end_of_msg|>"};
constexpr const char *k2Controls[] = {"<|im_user|>", "<|im_assistant|>",
                                      "<|im_system|>", "<|im_middle|>",
                                      "<|im_end|>"};

/// Reads one conversation out of parsed JSON. Each reader returns false with
/// `error` set; `where` names the place for the reader of the message.
class ChatReader {
public:
  ChatReader(Chat &chat, std::string &error) : chat(chat), error(error) {}

  bool read(const Json &root);

private:
  bool fail(const std::string &where, const std::string &what) {
    error = where + ": " + what;
    return false;
  }
  bool readString(const Json &object, const char *key, const std::string &where,
                  std::string &out);
  bool readContent(const Json &content, const std::string &where,
                   std::vector<std::string> &out);
  bool readTools(const Json &tools, const std::string &where, Json &out);
  bool readToolCalls(const Json &calls, const std::string &where,
                     std::vector<ToolCall> &out);
  bool readMessage(const Json &json, const std::string &where);
  bool readSettings(const Json &root);
  bool readResponseFormat(const Json &format);

  Chat &chat;
  std::string &error;
};

bool ChatReader::readString(const Json &object, const char *key,
                            const std::string &where, std::string &out) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null())
    return true;
  if (!it->is_string())
    return fail(where, std::string("'") + key + "' must be a string, got " +
                           it->type_name());
  out = *it->get_ptr<const Json::string_t *>();
  return true;
}

bool ChatReader::readContent(const Json &content, const std::string &where,
                             std::vector<std::string> &out) {
  if (content.is_null())
    return true;
  if (content.is_string()) {
    out.push_back(*content.get_ptr<const Json::string_t *>());
    return true;
  }
  if (!content.is_array())
    return fail(where,
                std::string("'content' must be a string, null or an array of "
                            "parts, got ") +
                    content.type_name());
  for (const Json &part : content) {
    std::string type = "text", text;
    if (!part.is_object())
      return fail(where, "content parts must be objects");
    if (!readString(part, "type", where, type))
      return false;
    if (type != "text")
      return fail(where, "content part of type '" + type +
                             "' is not supported, only text is");
    if (!part.contains("text"))
      return fail(where, "content part has no 'text'");
    if (!readString(part, "text", where, text))
      return false;
    out.push_back(std::move(text));
  }
  return true;
}

bool ChatReader::readTools(const Json &tools, const std::string &where,
                           Json &out) {
  if (tools.is_null())
    return true;
  if (!tools.is_array())
    return fail(where, std::string("'tools' must be an array, got ") +
                           tools.type_name());
  for (const Json &tool : tools)
    if (!tool.is_object())
      return fail(where, "each entry of 'tools' must be an object");
  out = tools;
  return true;
}

bool ChatReader::readToolCalls(const Json &calls, const std::string &where,
                               std::vector<ToolCall> &out) {
  if (calls.is_null())
    return true;
  if (!calls.is_array())
    return fail(where, std::string("'tool_calls' must be an array, got ") +
                           calls.type_name());
  for (const Json &entry : calls) {
    if (!entry.is_object())
      return fail(where, "each entry of 'tool_calls' must be an object");
    ToolCall call;
    if (!readString(entry, "id", where, call.id))
      return false;
    auto function = entry.find("function");
    const Json &body = function == entry.end() ? entry : *function;
    if (!body.is_object())
      return fail(where, "'function' of a tool call must be an object");
    if (!readString(body, "name", where, call.name))
      return false;
    if (call.name.empty())
      return fail(where, "a tool call has no 'name'");
    auto arguments = body.find("arguments");
    if (arguments != body.end()) {
      if (!arguments->is_null() && !arguments->is_object() &&
          !arguments->is_string())
        return fail(where, std::string("'arguments' of a tool call must be an "
                                       "object or a JSON text, got ") +
                               arguments->type_name());
      call.arguments = *arguments;
    }
    out.push_back(std::move(call));
  }
  return true;
}

bool ChatReader::readMessage(const Json &json, const std::string &where) {
  if (!json.is_object())
    return fail(where,
                std::string("must be an object, got ") + json.type_name());
  ChatMessage message;
  message.tools = Json::array();
  if (!readString(json, "role", where, message.role))
    return false;
  if (message.role == "developer")
    message.role = "system";
  if (message.role != "system" && message.role != "user" &&
      message.role != "assistant" && message.role != "tool")
    return fail(where, message.role.empty()
                           ? "has no 'role'"
                           : "unknown role '" + message.role +
                                 "'; use system, user, assistant or tool");
  auto content = json.find("content");
  if (content != json.end() && !readContent(*content, where, message.content))
    return false;
  if (!readString(json, "name", where, message.name) ||
      !readString(json, "reasoning", where, message.reasoning) ||
      !readString(json, "tool", where, message.tool) ||
      !readString(json, "id", where, message.toolCallId) ||
      !readString(json, "tool_call_id", where, message.toolCallId))
    return false;
  std::string reasoning;
  if (!readString(json, "reasoning_content", where, reasoning))
    return false;
  if (!reasoning.empty())
    message.reasoning = std::move(reasoning);
  auto calls = json.find("tool_calls");
  if (calls != json.end() && message.role == "assistant" &&
      !readToolCalls(*calls, where, message.toolCalls))
    return false;
  auto tools = json.find("tools");
  if (tools != json.end() && message.role == "system" &&
      !readTools(*tools, where, message.tools))
    return false;
  chat.messages.push_back(std::move(message));
  return true;
}

bool ChatReader::readResponseFormat(const Json &format) {
  const char *where = "response_format";
  if (format.is_null())
    return true;
  if (format.is_string()) {
    chat.responseType = *format.get_ptr<const Json::string_t *>();
  } else if (format.is_object()) {
    if (!readString(format, "type", where, chat.responseType))
      return false;
    auto schema = format.find("json_schema");
    if (schema != format.end()) {
      const Json *inner = &*schema;
      for (const char *key : {"schema", "json_schema"}) {
        if (!schema->is_object() || !schema->contains(key))
          continue;
        inner = &*schema->find(key);
        break;
      }
      chat.responseSchema = *inner;
    }
  } else {
    return fail(where, std::string("must be a string or an object, got ") +
                           format.type_name());
  }
  if (chat.responseType != "" && chat.responseType != "text" &&
      chat.responseType != "json_object" && chat.responseType != "json_schema")
    return fail(where, "unknown type '" + chat.responseType +
                           "'; use text, json_object or json_schema");
  if (chat.responseType == "json_schema" && chat.responseSchema.is_null())
    return fail(where, "type json_schema needs 'json_schema'");
  return true;
}

bool ChatReader::readSettings(const Json &root) {
  auto thinking = root.find("thinking");
  if (thinking != root.end() && !thinking->is_null()) {
    if (!thinking->is_boolean())
      return fail("thinking", std::string("must be true or false, got ") +
                                  thinking->type_name());
    chat.thinking = *thinking->get_ptr<const Json::boolean_t *>();
  }
  if (!readString(root, "thinking_effort", "thinking_effort",
                  chat.thinkingEffort) ||
      !readString(root, "tool_choice", "tool_choice", chat.toolChoice))
    return false;
  if (chat.toolChoice != "" && chat.toolChoice != "auto" &&
      chat.toolChoice != "required" && chat.toolChoice != "none")
    return fail("tool_choice", "unknown value '" + chat.toolChoice +
                                   "'; use auto, required or none");
  auto tools = root.find("tools");
  if (tools != root.end() && !readTools(*tools, "tools", chat.tools))
    return false;
  auto format = root.find("response_format");
  return format == root.end() || readResponseFormat(*format);
}

bool ChatReader::read(const Json &root) {
  const Json *messages = &root;
  if (root.is_object()) {
    auto it = root.find("messages");
    if (it == root.end())
      return fail("chat", "object has no 'messages'");
    messages = &*it;
    if (!readSettings(root))
      return false;
  }
  if (!messages->is_array())
    return fail("chat", std::string("messages must be an array, got ") +
                            messages->type_name());
  for (size_t i = 0; i < messages->size(); ++i)
    if (!readMessage((*messages)[i], "message " + std::to_string(i + 1)))
      return false;
  if (chat.thinking && chat.thinkingEffort != "low" &&
      chat.thinkingEffort != "high" && chat.thinkingEffort != "max")
    return fail("thinking_effort", "unknown value '" + chat.thinkingEffort +
                                       "'; use low, high or max");
  return true;
}
} // namespace

std::string_view trim(std::string_view text) {
  constexpr const char *space = " \t\n\r\f\v";
  size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::optional<ChatFormat> detectChatFormat(const Tokenizer &tokenizer) {
  auto hasAll = [&tokenizer](const auto &names) {
    for (const char *name : names)
      if (!tokenizer.specialId(name))
        return false;
    return true;
  };
  if (hasAll(k3Controls))
    return ChatFormat::kimiK3;
  if (hasAll(k2Controls))
    return ChatFormat::kimiK2;
  return std::nullopt;
}

bool renderChat(ChatFormat format, std::string_view json,
                const ChatOptions &options, std::vector<ChatSegment> &segments,
                std::string &error) {
  Json root;
  if (!parseJson(json, root, error)) {
    error = "chat: " + error;
    return false;
  }
  Chat chat;
  chat.tools = Json::array();
  chat.thinking = options.thinking;
  chat.thinkingEffort = options.thinkingEffort;
  chat.preamble = options.preamble;
  chat.generationPrompt = options.generationPrompt;
  if (!ChatReader(chat, error).read(root))
    return false;
  std::vector<ChatSegment> rendered;
  SegmentWriter out(rendered);
  if (!(format == ChatFormat::kimiK3 ? renderK3(chat, out, error)
                                     : renderK2(chat, out, error)))
    return false;
  segments = std::move(rendered);
  return true;
}

bool encodeChat(const Tokenizer &tokenizer, std::string_view json,
                const ChatOptions &options, std::vector<int32_t> &ids,
                std::string &error) {
  std::optional<ChatFormat> format = detectChatFormat(tokenizer);
  if (!format) {
    error = "this model has no chat format: its tokenizer has neither <|open|> "
            "<|close|> <|sep|> <|end_of_msg|> nor the <|im_...|> tokens";
    return false;
  }
  std::vector<ChatSegment> segments;
  if (!renderChat(*format, json, options, segments, error))
    return false;
  std::vector<int32_t> encoded;
  for (const ChatSegment &segment : segments) {
    if (!segment.control) {
      if (!tokenizer.encode(segment.text, AllowSpecial::no, encoded, error))
        return false;
      continue;
    }
    std::optional<int32_t> id = tokenizer.specialId(segment.text);
    if (!id) {
      error = "chat: the tokenizer has no special token " + segment.text;
      return false;
    }
    encoded.push_back(*id);
  }
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return true;
}

int32_t chatStopId(const Tokenizer &tokenizer, ChatFormat format) {
  return *tokenizer.specialId(format == ChatFormat::kimiK3 ? "<|end_of_msg|>"
                                                           : "<|im_end|>");
}

} // namespace k3rt
