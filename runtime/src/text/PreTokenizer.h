//===- PreTokenizer.h - splitting text before byte-pair merging ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_PRETOKENIZER_H
#define K3RT_TEXT_PRETOKENIZER_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace k3rt {

/// Kimi's split pattern (K2, Kimi-Linear and K3 use the same one): runs of Han;
/// words of other letters with an optional leading non-letter and an optional
/// English contraction; one to three digits; punctuation with an optional leading
/// space and trailing newlines; newlines; spaces.
///
/// Unicode properties are those of the PCRE2 linked in (Unicode 14 in 10.42),
/// plus the Han blocks added since, so that all Han text splits as Han.
class PreTokenizer {
public:
  PreTokenizer();
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer &) = delete;
  PreTokenizer &operator=(const PreTokenizer &) = delete;

  /// Appends the end offset of each piece of `text` to `ends`; the pieces cover
  /// the text. `text` must be valid UTF-8. Steps and memory are bounded by the
  /// length of the text; a text past the bounds gives false with one line in
  /// `error`. May be called from several threads.
  [[nodiscard]] bool split(std::string_view text, std::vector<size_t> &ends,
                           std::string &error) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace k3rt

#endif // K3RT_TEXT_PRETOKENIZER_H
