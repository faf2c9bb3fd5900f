//===- TextSources.cpp - generated ids to text --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/TextSources.h"

#include <ostream>

namespace k3run {

bool AnswerText::push(int32_t id, std::string &text, std::string &error) {
  std::vector<k3rt::ChatAnswerReader::Delta> deltas;
  if (!reader.push(id, deltas, error))
    return false;
  take(deltas, text);
  return true;
}

void AnswerText::finish(std::string &text) {
  std::vector<k3rt::ChatAnswerReader::Delta> deltas;
  reader.finish(deltas);
  take(deltas, text);
  endShown();
}

void AnswerText::take(const std::vector<k3rt::ChatAnswerReader::Delta> &deltas,
                      std::string &text) {
  for (const k3rt::ChatAnswerReader::Delta &delta : deltas) {
    if (delta.part == Part::response) {
      endShown();
      text += delta.text;
      continue;
    }
    (delta.part == Part::reasoning ? reasoning : toolCalls) += delta.text;
    if (!show)
      continue;
    if (!shown || shownPart != delta.part)
      *show << (shown ? "\n" : "")
            << (delta.part == Part::reasoning ? "[thinking] " : "[tool calls] ");
    *show << delta.text << std::flush;
    shown = true;
    shownPart = delta.part;
  }
}

void AnswerText::endShown() {
  if (shown)
    *show << '\n' << std::flush;
  shown = false;
}

bool StoppedText::init(TextSource &from, const k3rt::StopOptions &stops,
                       std::string &error) {
  source = &from;
  return matcher.init(stops, error);
}

bool StoppedText::push(int32_t id, std::string &certain, std::string &error) {
  if (matcher.isStopId(id)) {
    stoppedById = true;
    return true;
  }
  std::string text, piece;
  if (!source->push(id, text, error))
    return false;
  matcher.push(text, piece);
  all += piece;
  certain += piece;
  return true;
}

void StoppedText::finish(std::string &certain) {
  std::string rest, piece;
  source->finish(rest);
  matcher.push(rest, piece);
  matcher.finish(piece);
  all += piece;
  certain += piece;
}

} // namespace k3run
