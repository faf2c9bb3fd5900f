//===- Prompts.h - prompts that can be told from each other ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Every prompt has its marker, which no other has. Those of a model that knows
// text have a made-up name that they repeat, and so do many answers; where the
// name is found in the answer to another prompt, something has crossed. For
// other models the marker is a few tokens of the prompt: an answer to another
// prompt is not the right one.
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_SOAK_PROMPTS_H
#define K3_TEST_SOAK_PROMPTS_H

#include "runtime/src/text/Tokenizer.h"
#include "test/soak/Texts.h"

#include <deque>

namespace soak {

struct Prompt {
  Tokens tokens;
  std::vector<std::string> markers; ///< its own first; none can be seen: empty
};

class Prompts {
public:
  explicit Prompts(const Subject &subject);

  Prompt next();
  /// Goes on with `before` and the answer to it, if there is room for more.
  Prompt next(const Prompt &before, const Tokens &answer);
  /// Looks for markers of the last prompts in an answer to `prompt`.
  void look(const Prompt &prompt, const Tokens &answer);
  /// Answers that were looked at, and those with their own marker.
  uint64_t seen() const { return answers; }
  uint64_t own() const { return withOwn; }

private:
  void add(Prompt &prompt, const std::string &text);
  std::string nextMarker();
  std::string sentence();
  size_t below(size_t limit) { return random() % limit; }

  std::mt19937 random;
  Texts texts;
  std::unique_ptr<k3rt::Tokenizer> tokenizer;
  std::vector<std::string> beginnings;
  std::deque<std::string> last; ///< markers of the last prompts
  uint64_t context;
  uint64_t made = 0, answers = 0, withOwn = 0;
};

} // namespace soak

#endif // K3_TEST_SOAK_PROMPTS_H
