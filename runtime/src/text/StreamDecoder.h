//===- StreamDecoder.h - token ids to text, one at a time ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_STREAMDECODER_H
#define K3RT_TEXT_STREAMDECODER_H

#include "runtime/src/text/Tokenizer.h"
#include "runtime/src/text/Utf8.h"

namespace k3rt {

/// Decodes a stream of ids into text that is valid UTF-8 at every step: a
/// character spread over several tokens comes out with its last one. All pieces
/// together equal Tokenizer::decodeText of all ids. At most 3 bytes wait (see
/// Utf8Repairer for the replacement policy).
class StreamDecoder {
public:
  /// `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer &tokenizer,
                         SpecialText special = SpecialText::skip)
      : tokenizer(tokenizer), special(special) {}

  /// Appends to `text` what `id` completes. Error: id outside the vocabulary.
  [[nodiscard]] bool push(int32_t id, std::string &text, std::string &error);
  /// Ends the stream: an unfinished character comes out as U+FFFD.
  void finish(std::string &text) { repairer.finish(text); }

private:
  const Tokenizer &tokenizer;
  SpecialText special;
  Utf8Repairer repairer;
};

} // namespace k3rt

#endif // K3RT_TEXT_STREAMDECODER_H
