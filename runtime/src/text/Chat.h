//===- Chat.h - messages to prompt tokens -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Turns a conversation in JSON into the token ids the model was trained on. Two
// formats exist; which one applies follows from the special tokens of the model.
//
// Both are written as segments. Control segments are special tokens; all else
// (tag names, attributes, message text) is ordinary text, encoded segment by
// segment without recognising specials, so no text can form a control token.
// No begin token is added.
//
// Kimi K3 ("XTML"), when <|open|> <|close|> <|sep|> <|end_of_msg|> exist
// (OPEN, CLOSE, SEP, END below):
//  * A tag opens with OPEN name, then for each attribute the four segments
//    ` key`, `="`, value, `"`, then SEP; it closes with CLOSE name SEP. In values
//    & is written &amp; and " is &quot;.
//  * A message is tag `message` with attribute role, then optional name, followed
//    by END. Order: tool declaration, thinking effort, the conversation, tool
//    choice, response format, generation prompt.
//  * System messages made here carry a second attribute, type: tool-declare,
//    thinking-effort, tool-choice, response-format; their wording is the model's.
//    Tool schemas are compact JSON with sorted keys. A system message of the
//    conversation that has "tools" declares further tools and nothing else (a
//    content next to it follows as its own message).
//  * An assistant message holds tag think (only when thinking is on; empty when
//    there is no reasoning), tag response, and with tool calls tag tools holding
//    `call` tool= index= (from 1) for each, holding `argument` key= type= for
//    each argument. A string argument is written as it is; other values of
//    arguments given as a JSON text keep their spelling, of arguments given as an
//    object are written as Python's json.dumps does. Arguments that are not JSON
//    become one tag `json` type="object" with the raw text.
//  * A tool message has attributes role, tool, index. A run of them is put into
//    the order of the calls when all ids match, index counts from 1 since the
//    last assistant message, and the name is that of the matching call, else
//    "tool" or "name" of the message, else that of the call at the same place.
//  * The parts of a content array are separate segments.
//  * Generation prompt: message role="assistant" and think (response when
//    thinking is off) opened. The answer ends with <|end_of_msg|>.
//
// Kimi K2 and Kimi-Linear, when <|im_user|> <|im_assistant|> <|im_system|>
// <|im_middle|> <|im_end|> exist: a message is its role's token (im_system for
// all other roles), its name or role, <|im_middle|>, its text, <|im_end|>. Tools
// come first as a message "tool_declare" in compact JSON with keys as given; a
// tool message starts with the line "## Return of ID"; tool calls follow the
// assistant's text between the tool_calls_section tokens. No system message is
// invented. There is no thinking part: reasoning is left out. The generation
// prompt is <|im_assistant|>assistant<|im_middle|>; the answer ends with
// <|im_end|>.
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_CHAT_H
#define K3RT_TEXT_CHAT_H

#include "runtime/src/text/Tokenizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace k3rt {

enum class ChatFormat { kimiK3, kimiK2 };

/// The format the special tokens call for; nothing when they fit neither.
std::optional<ChatFormat> detectChatFormat(const Tokenizer &tokenizer);

/// Defaults for what the JSON does not say.
struct ChatOptions {
  bool thinking = true;
  /// "low", "high" or "max". Not used when thinking is off.
  std::string thinkingEffort = "max";
  /// Declare tools and thinking effort first. False for messages that continue a
  /// conversation the model has seen already.
  bool preamble = true;
  /// Open an assistant message at the end for the model to continue.
  bool generationPrompt = true;
};

/// A piece of a rendered conversation. Control: the name of one special token.
struct ChatSegment {
  bool control;
  std::string text;
};

/// Renders `json`: an array of messages, or an object with "messages" and
/// optionally "tools" (array), "tool_choice" ("auto", "required", "none"),
/// "response_format" (string or object with "type"), "thinking" (bool),
/// "thinking_effort". A message is an object with "role" (system, developer = system,
/// user, assistant, tool), "content" (string, null, or array of text parts), and
/// where it applies "name", "reasoning_content", "tool_calls", "tool_call_id",
/// "tools". Errors are one line that names the message.
[[nodiscard]] bool renderChat(ChatFormat format, std::string_view json,
                              const ChatOptions &options,
                              std::vector<ChatSegment> &segments,
                              std::string &error);

/// renderChat in the tokenizer's format, encoded; appends to `ids`.
[[nodiscard]] bool encodeChat(const Tokenizer &tokenizer, std::string_view json,
                              const ChatOptions &options,
                              std::vector<int32_t> &ids, std::string &error);

/// The id that ends an answer in `format`; the tokenizer has it.
int32_t chatStopId(const Tokenizer &tokenizer, ChatFormat format);

} // namespace k3rt

#endif // K3RT_TEXT_CHAT_H
