//===- ChatRender.h - what the two chat formats share -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_CHATRENDER_H
#define K3RT_TEXT_CHATRENDER_H

#include "runtime/src/text/Chat.h"
#include "runtime/src/text/PythonJson.h"

namespace k3rt {

struct ToolCall {
  std::string id; ///< empty: none
  std::string name;
  Json arguments; ///< object, string (JSON text or not), or null
};

struct ChatMessage {
  std::string role; ///< system, user, assistant or tool
  std::string name; ///< empty: none
  std::vector<std::string> content;
  std::string reasoning;
  std::vector<ToolCall> toolCalls;
  std::string toolCallId; ///< empty: none
  std::string tool;       ///< "tool" of a tool message; empty: none
  Json tools;             ///< of a system message; array, empty: none
};

/// A checked conversation.
struct Chat {
  std::vector<ChatMessage> messages;
  Json tools; ///< array, maybe empty
  std::string toolChoice;
  std::string responseType;
  Json responseSchema;
  bool thinking;
  std::string thinkingEffort;
  bool preamble;
  bool generationPrompt;
};

/// Collects segments, dropping empty ones.
class SegmentWriter {
public:
  explicit SegmentWriter(std::vector<ChatSegment> &out) : out(out) {}
  void control(std::string_view name) { add(true, name); }
  void ordinary(std::string_view text) { add(false, text); }

private:
  void add(bool control, std::string_view text) {
    if (!text.empty())
      out.push_back({control, std::string(text)});
  }
  std::vector<ChatSegment> &out;
};

[[nodiscard]] bool renderK3(const Chat &chat, SegmentWriter &out,
                            std::string &error);
[[nodiscard]] bool renderK2(const Chat &chat, SegmentWriter &out,
                            std::string &error);

/// Python's str.strip for ASCII white space.
std::string_view trim(std::string_view text);

} // namespace k3rt

#endif // K3RT_TEXT_CHATRENDER_H
