//===- TextSources.h - generated ids to text ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_TEXTSOURCES_H
#define K3_TOOLS_K3RUN_TEXTSOURCES_H

#include "runtime/src/text/ChatAnswer.h"
#include "runtime/src/text/StopMatcher.h"
#include "runtime/src/text/StreamDecoder.h"

#include <iosfwd>

namespace k3run {

/// Turns generated ids into text to give out. One object per answer.
class TextSource {
public:
  virtual ~TextSource() = default;
  [[nodiscard]] virtual bool push(int32_t id, std::string &text,
                                  std::string &error) = 0;
  virtual void finish(std::string &text) = 0;
};

/// All text, without special tokens.
class PlainText : public TextSource {
public:
  explicit PlainText(const k3rt::Tokenizer &tokenizer) : decoder(tokenizer) {}
  bool push(int32_t id, std::string &text, std::string &error) override {
    return decoder.push(id, text, error);
  }
  void finish(std::string &text) override { decoder.finish(text); }

private:
  k3rt::StreamDecoder decoder;
};

/// Gives the response as text; reasoning and tool calls are kept, and shown when
/// there is a stream to show them on.
class AnswerText : public TextSource {
public:
  AnswerText(const k3rt::Tokenizer &tokenizer, k3rt::ChatFormat format,
             bool thinking, std::ostream *show)
      : reader(tokenizer, format, thinking), show(show) {}

  bool push(int32_t id, std::string &text, std::string &error) override;
  void finish(std::string &text) override;

  std::string reasoning, toolCalls;

private:
  using Part = k3rt::ChatAnswerReader::Part;

  void take(const std::vector<k3rt::ChatAnswerReader::Delta> &deltas,
            std::string &text);
  void endShown();

  k3rt::ChatAnswerReader reader;
  std::ostream *show;
  bool shown = false;
  Part shownPart = Part::response;
};

/// The text of an answer up to where it stops.
class StoppedText {
public:
  /// False with one line in `error`. `source` outlives the object.
  [[nodiscard]] bool init(TextSource &source, const k3rt::StopOptions &stops,
                          std::string &error);

  /// Takes a generated id; `certain` gets the text that may be given out now.
  [[nodiscard]] bool push(int32_t id, std::string &certain,
                          std::string &error);
  /// After the last id.
  void finish(std::string &certain);
  /// Whether a stop id or a stop string ended the answer.
  bool stopped() const { return stoppedById || matcher.stopped(); }
  /// All of it that was certain so far.
  const std::string &text() const { return all; }

private:
  TextSource *source = nullptr;
  k3rt::StopMatcher matcher;
  bool stoppedById = false;
  std::string all;
};

} // namespace k3run

#endif // K3_TOOLS_K3RUN_TEXTSOURCES_H
