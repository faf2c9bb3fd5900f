//===- ChatK2.cpp - Kimi K2 and Kimi-Linear prompt format ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/ChatRender.h"

namespace k3rt {

namespace {
void header(SegmentWriter &out, const char *token, std::string_view name) {
  out.control(token);
  out.ordinary(name);
  out.control("<|im_middle|>");
}

void toolCalls(SegmentWriter &out, const std::vector<ToolCall> &calls) {
  out.control("<|tool_calls_section_begin|>");
  for (size_t i = 0; i < calls.size(); ++i) {
    const ToolCall &call = calls[i];
    out.control("<|tool_call_begin|>");
    out.ordinary(call.id.empty()
                     ? "functions." + call.name + ":" + std::to_string(i)
                     : call.id);
    out.control("<|tool_call_argument_begin|>");
    if (call.arguments.is_string())
      out.ordinary(*call.arguments.get_ptr<const Json::string_t *>());
    else if (call.arguments.is_null())
      out.ordinary("{}");
    else
      out.ordinary(dumpJson(call.arguments, JsonStyle::spaced));
    out.control("<|tool_call_end|>");
  }
  out.control("<|tool_calls_section_end|>");
}
} // namespace

bool renderK2(const Chat &chat, SegmentWriter &out, std::string &error) {
  if (chat.preamble && !chat.tools.empty()) {
    header(out, "<|im_system|>", "tool_declare");
    out.ordinary(dumpJson(chat.tools, JsonStyle::compact));
    out.control("<|im_end|>");
  }
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const ChatMessage &message = chat.messages[i];
    const char *token = message.role == "user"        ? "<|im_user|>"
                        : message.role == "assistant" ? "<|im_assistant|>"
                                                      : "<|im_system|>";
    header(out, token, message.name.empty() ? message.role : message.name);
    // The text between two control tokens is one segment.
    std::string text;
    if (message.role == "tool") {
      if (message.toolCallId.empty()) {
        error = "message " + std::to_string(i + 1) +
                ": a tool message needs 'tool_call_id'";
        return false;
      }
      text = "## Return of " + message.toolCallId + "\n";
    }
    for (const std::string &part : message.content)
      text += part;
    out.ordinary(text);
    if (!message.toolCalls.empty())
      toolCalls(out, message.toolCalls);
    out.control("<|im_end|>");
  }
  if (chat.generationPrompt)
    header(out, "<|im_assistant|>", "assistant");
  return true;
}

} // namespace k3rt
