//===- Texts.h - token sequences that begin alike -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_SOAK_TEXTS_H
#define K3_TEST_SOAK_TEXTS_H

#include "test/soak/Subject.h"

#include <algorithm>
#include <random>

namespace soak {

/// A few texts, most of which begin as another one does: sequences that have
/// seen the same can go on differently, and what there is to be known of them
/// alone stays little.
class Texts {
public:
  Texts(size_t count, size_t length, int32_t vocab, uint32_t seed)
      : random(seed), vocab(vocab) {
    for (size_t i = 0; i < count; ++i) {
      Tokens text;
      if (i % 4 != 0) {
        const Tokens &other = all[random() % i];
        text.assign(other.begin(), other.begin() + long(random() % length));
      }
      Tokens rest = noise(length - text.size());
      text.insert(text.end(), rest.begin(), rest.end());
      all.push_back(std::move(text));
    }
  }

  Tokens noise(size_t length) {
    Tokens tokens;
    for (size_t i = 0; i < length; ++i)
      tokens.push_back(int32_t(random() % uint32_t(vocab)));
    return tokens;
  }
  /// The beginning of one of the texts.
  Tokens beginning(size_t length) {
    const Tokens &text = all[random() % all.size()];
    return Tokens(text.begin(), text.begin() + long(length));
  }
  /// Up to `count` tokens of a text that begins with `seen`, or none.
  Tokens after(const Tokens &seen, size_t count) {
    size_t start = random() % all.size();
    for (size_t i = 0; i < all.size(); ++i) {
      const Tokens &text = all[(start + i) % all.size()];
      if (text.size() < seen.size() ||
          !std::equal(seen.begin(), seen.end(), text.begin()))
        continue;
      auto from = text.begin() + long(seen.size());
      return Tokens(from, from + long(std::min(count, text.size() -
                                                          seen.size())));
    }
    return {};
  }

private:
  std::mt19937 random;
  int32_t vocab;
  std::vector<Tokens> all;
};

} // namespace soak

#endif // K3_TEST_SOAK_TEXTS_H
