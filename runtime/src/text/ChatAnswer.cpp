//===- ChatAnswer.cpp - the parts of a chat answer ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/ChatAnswer.h"

#include <algorithm>

namespace k3rt {

ChatAnswerReader::ChatAnswerReader(const Tokenizer &tokenizer,
                                   ChatFormat format, bool thinking)
    : tokenizer(tokenizer), format(format), decoder(tokenizer) {
  openTags = {"message", thinking ? "think" : "response"};
}

ChatAnswerReader::Part ChatAnswerReader::part() const {
  if (format == ChatFormat::kimiK2)
    return inTools ? Part::tools : Part::response;
  for (const std::string &tag : openTags) {
    if (tag == "think")
      return Part::reasoning;
    if (tag == "tools")
      return Part::tools;
  }
  return Part::response;
}

void ChatAnswerReader::add(std::vector<Delta> &deltas, std::string text) {
  if (text.empty())
    return;
  if (!deltas.empty() && deltas.back().part == part())
    deltas.back().text += text;
  else
    deltas.push_back({part(), std::move(text)});
}

void ChatAnswerReader::flush(std::vector<Delta> &deltas) {
  std::string text;
  decoder.finish(text);
  if (reading == Tag::none)
    add(deltas, std::move(text));
  else
    tagText += text;
}

bool ChatAnswerReader::push(int32_t id, std::vector<Delta> &deltas,
                            std::string &error) {
  return format == ChatFormat::kimiK3 ? pushK3(id, deltas, error)
                                      : pushK2(id, deltas, error);
}

void ChatAnswerReader::finish(std::vector<Delta> &deltas) { flush(deltas); }

bool ChatAnswerReader::pushK3(int32_t id, std::vector<Delta> &deltas,
                              std::string &error) {
  std::string_view name = tokenizer.specialName(id);
  if (name == "<|open|>" || name == "<|close|>") {
    flush(deltas);
    reading = name == "<|open|>" ? Tag::opening : Tag::closing;
    tagText.clear();
    return true;
  }
  if (name == "<|sep|>") {
    flush(deltas);
    if (reading == Tag::opening) {
      openTags.push_back(tagText.substr(0, tagText.find(' ')));
      if (part() == Part::tools)
        add(deltas, "<" + tagText + ">");
    } else if (reading == Tag::closing) {
      bool tools = part() == Part::tools;
      auto last = std::find(openTags.rbegin(), openTags.rend(), tagText);
      if (last != openTags.rend()) {
        if (tools)
          add(deltas, "</" + tagText + ">");
        openTags.erase(last.base() - 1, openTags.end());
      }
    }
    reading = Tag::none;
    return true;
  }
  std::string text;
  if (!decoder.push(id, text, error))
    return false;
  if (reading == Tag::none)
    add(deltas, std::move(text));
  else
    tagText += text;
  return true;
}

bool ChatAnswerReader::pushK2(int32_t id, std::vector<Delta> &deltas,
                              std::string &error) {
  std::string_view name = tokenizer.specialName(id);
  if (name == "<|tool_calls_section_begin|>") {
    flush(deltas);
    inTools = true;
  }
  if (inTools && !name.empty()) {
    flush(deltas);
    add(deltas, std::string(name));
    if (name == "<|tool_calls_section_end|>")
      inTools = false;
    return true;
  }
  std::string text;
  if (!decoder.push(id, text, error))
    return false;
  add(deltas, std::move(text));
  return true;
}

} // namespace k3rt
