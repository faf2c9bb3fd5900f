//===- Prompts.cpp - prompts that can be told from each other -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/soak/Prompts.h"
#include "test/soak/Check.h"

namespace soak {

Prompts::Prompts(const Subject &subject)
    : random(subject.chosen().seed + 2),
      texts(4, subject.context(), subject.plainTokens(),
            subject.chosen().seed + 1),
      context(subject.context()) {
  const void *blob = nullptr;
  uint64_t size = 0;
  SOAK_CHECK(k3rt_tokenizer_blob(subject.reference(), &blob, &size) == K3RT_OK,
             "the tokenizer");
  if (subject.isToy() || !blob)
    return;
  std::string error;
  tokenizer = k3rt::Tokenizer::open(blob, size, error);
  SOAK_CHECK(tokenizer, "%s", error.c_str());
  for (int i = 0; i < 4; ++i) {
    beginnings.emplace_back();
    for (int j = 0; j < 4; ++j)
      beginnings.back() += sentence();
  }
}

std::string Prompts::sentence() {
  static const char *const who[] = {"The king", "An old woman", "The boy",
                                    "My sister", "A fox", "The captain"};
  static const char *const did[] = {"went into the wood", "looked at the sea",
                                    "gave him bread",     "said nothing",
                                    "sat by the fire",    "came home"};
  static const char *const when[] = {"that night", "in the morning", "again",
                                     "before long", "at last", "once"};
  return std::string(who[below(6)]) + " " + did[below(6)] + " " +
         when[below(6)] + ". ";
}

/// Three of eighty syllables: none comes again before 512,000 others.
std::string Prompts::nextMarker() {
  static const char consonants[] = "BDFGHJKLMNPRSTVZ", vowels[] = "aeiou";
  constexpr uint64_t syllables = 80, count = syllables * syllables * syllables;
  uint64_t number = ++made * 104729 % count; // neighbours look different
  std::string word;
  for (int i = 0; i < 3; ++i, number /= syllables) {
    char consonant = consonants[number % syllables / 5];
    word += i == 0 ? consonant : char(consonant - 'A' + 'a');
    word += vowels[number % 5];
  }
  return word;
}

/// A marker, in `text` where there is a tokenizer.
void Prompts::add(Prompt &prompt, const std::string &text) {
  if (!tokenizer) {
    for (uint64_t marker = ++made; marker != 0; marker /= 10)
      prompt.tokens.push_back(int32_t(50 + marker % 10));
    Tokens rest = texts.noise(below(10));
    prompt.tokens.insert(prompt.tokens.end(), rest.begin(), rest.end());
    return;
  }
  std::string name = nextMarker(), error;
  SOAK_CHECK(tokenizer->encode(text + name + " and " + name + " and " + name +
                                   " and",
                               k3rt::AllowSpecial::no, prompt.tokens, error),
             "%s", error.c_str());
  prompt.markers.insert(prompt.markers.begin(), name);
  constexpr size_t remembered = 256; // more than there are at a time
  last.push_back(name);
  if (last.size() > remembered)
    last.pop_front();
}

Prompt Prompts::next() {
  Prompt prompt;
  if (!tokenizer && below(3) != 0)
    prompt.tokens = texts.beginning(below(context / 2));
  add(prompt, !tokenizer       ? ""
              : below(3) == 0 ? sentence()
                              : beginnings[below(4)]);
  return prompt;
}

Prompt Prompts::next(const Prompt &before, const Tokens &answer) {
  constexpr size_t more = 64; // for what comes now and the answer to it
  if (before.tokens.size() + answer.size() + more > context)
    return next();
  Prompt prompt = before;
  prompt.tokens.insert(prompt.tokens.end(), answer.begin(), answer.end());
  add(prompt, " ");
  return prompt;
}

void Prompts::look(const Prompt &prompt, const Tokens &answer) {
  if (!tokenizer)
    return;
  std::string text, error;
  SOAK_CHECK(tokenizer->decode(answer.data(), answer.size(),
                               k3rt::SpecialText::show, text, error),
             "%s", error.c_str());
  ++answers;
  withOwn += text.find(prompt.markers[0]) != std::string::npos;
  for (const std::string &name : last) {
    bool isOwn = std::find(prompt.markers.begin(), prompt.markers.end(),
                           name) != prompt.markers.end();
    SOAK_CHECK(isOwn || text.find(name) == std::string::npos,
               "'%s' of another prompt is in the answer to '%s': %s",
               name.c_str(), prompt.markers[0].c_str(), text.c_str());
  }
}

} // namespace soak
