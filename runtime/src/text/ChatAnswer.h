//===- ChatAnswer.h - the parts of a chat answer ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_CHATANSWER_H
#define K3RT_TEXT_CHATANSWER_H

#include "runtime/src/text/Chat.h"
#include "runtime/src/text/StreamDecoder.h"

namespace k3rt {

/// Sorts the ids a model answers with into reasoning, response and tool calls,
/// one id at a time. The tags of the format do not appear in reasoning and
/// response; tool calls are given in readable form, tags as <name attributes> and
/// </name> (K3) or by the names of the special tokens (K2). Nothing the model
/// writes is an error: a tag that closes nothing is ignored.
class ChatAnswerReader {
public:
  enum class Part { reasoning, response, tools };
  /// Text that is known now, in order. Each is valid UTF-8.
  struct Delta {
    Part part;
    std::string text;
  };

  /// `thinking`: what the prompt was rendered with (see ChatOptions): the answer
  /// then starts inside the reasoning.
  ChatAnswerReader(const Tokenizer &tokenizer, ChatFormat format,
                   bool thinking);

  /// Appends to `deltas` what `id` completes. Error: id outside the vocabulary.
  [[nodiscard]] bool push(int32_t id, std::vector<Delta> &deltas,
                          std::string &error);
  void finish(std::vector<Delta> &deltas);

private:
  Part part() const;
  void add(std::vector<Delta> &deltas, std::string text);
  void flush(std::vector<Delta> &deltas);
  bool pushK3(int32_t id, std::vector<Delta> &deltas, std::string &error);
  bool pushK2(int32_t id, std::vector<Delta> &deltas, std::string &error);

  const Tokenizer &tokenizer;
  ChatFormat format;
  StreamDecoder decoder;
  // K3: names of the tags that are open, and the one being read.
  std::vector<std::string> openTags;
  enum class Tag { none, opening, closing } reading = Tag::none;
  std::string tagText;
  // K2: inside the tool calls section.
  bool inTools = false;
};

} // namespace k3rt

#endif // K3RT_TEXT_CHATANSWER_H
