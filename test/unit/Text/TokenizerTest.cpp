//===- TokenizerTest.cpp - text to token ids and back -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Text/TestTokenizer.h"

#include "runtime/src/text/Utf8.h"

#include "gtest/gtest.h"

#include <chrono>
#include <map>
#include <random>

using namespace k3rt;
using namespace k3rt::test;

namespace {
using Ids = std::vector<int32_t>;

void expectCases(const Tokenizer &tokenizer, const char *path, const char *key,
                 size_t atLeast) {
  nlohmann::json cases = readJson(path);
  ASSERT_GE(cases.size(), atLeast);
  for (auto &test : cases) {
    std::string text = test["text"].get<std::string>();
    EXPECT_EQ(encode(tokenizer, text), test[key].get<Ids>()) << text;
    EXPECT_EQ(decode(tokenizer, test[key].get<Ids>()), text);
  }
}

TEST(Tokenizer, MatchesTheGoldenCases) {
  expectCases(modelTokenizer("k3-nano"), "test/golden/tokenizer_cases.json",
              "ids", 8);
}

// T01: Han, contractions, newlines, foreign spaces; ids from tiktoken 0.14 with
// the published pattern.
TEST(Tokenizer, MatchesTiktokenOnHardSplits) {
  expectCases(modelTokenizer("k3-nano"), "test/unit/Text/vendor_cases.json",
              "ids", 50);
}

// The same texts over a vocabulary in which any two bytes of a piece join, so
// that a wrong split always shows.
TEST(Tokenizer, MatchesTiktokenOnEverySplit) {
  std::vector<std::string> pairs;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b)
      pairs.push_back({static_cast<char>(a), static_cast<char>(b)});
  OwnedTokenizer owned = makeTokenizer(byteTokenizerData(pairs));
  expectCases(*owned.tokenizer, "test/unit/Text/vendor_cases.json", "pair_ids",
              50);
}

TEST(Tokenizer, MatchesTheGoldenPrompts) {
  nlohmann::json prompts = readJson("test/golden/prompts.json");
  Ids val = prompts["val"].get<Ids>();
  ASSERT_EQ(val.size(), 2107u);
  Ids ids = {4096};
  std::string text = readFile("test/golden/heldout_8k.txt"), error;
  ASSERT_TRUE(modelTokenizer("k3-nano").encode(text, AllowSpecial::no, ids,
                                               error));
  EXPECT_EQ(ids, val);
  EXPECT_EQ(decode(modelTokenizer("k3-nano"), val), "[BOS]" + text);
  EXPECT_EQ(decode(modelTokenizer("k3-nano"), val, SpecialText::skip), text);
  // The same ranks with other specials.
  EXPECT_EQ(encode(modelTokenizer("kimi-linear-nano"), text),
            Ids(val.begin() + 1, val.end()));
}

std::string randomText(std::mt19937 &random, size_t characters) {
  std::string text;
  while (characters-- > 0) {
    uint32_t c = 0;
    switch (random() % 6) {
    case 0:
      c = random() % 0x110000;
      break;
    case 1:
      c = 0x4E00 + random() % 0x5200;
      break;
    case 2:
      c = random() % 0x3100;
      break;
    case 3:
      c = " \n\r\t'\"!-"[random() % 8];
      break;
    default:
      c = 32 + random() % 95;
    }
    if (c >= 0xD800 && c <= 0xDFFF)
      c = 0xFFFD;
    appendUtf8(text, c);
  }
  return text;
}

// T01: random Unicode comes back unchanged.
TEST(Tokenizer, RoundTripsRandomUnicode) {
  std::mt19937 random(7);
  std::string text;
  while (text.size() < (1 << 20))
    text += randomText(random, 1000);
  Ids ids = encode(modelTokenizer("k3-nano"), text);
  EXPECT_EQ(decode(modelTokenizer("k3-nano"), ids), text);
  for (int32_t id : ids)
    ASSERT_LT(id, 4096);
}

TEST(PreTokenizer, PiecesCoverTheText) {
  PreTokenizer splitter;
  std::mt19937 random(8);
  for (int i = 0; i < 200; ++i) {
    std::string text = randomText(random, random() % 50), error;
    std::vector<size_t> ends;
    ASSERT_TRUE(splitter.split(text, ends, error)) << error;
    size_t previous = 0;
    for (size_t end : ends) {
      ASSERT_GT(end, previous);
      previous = end;
    }
    EXPECT_EQ(previous, text.size());
  }
}

/// tiktoken's rule, word for word: join the pair of lowest rank until none is a
/// token. Quadratic, for comparison.
Ids mergeByTheBook(const TokenizerData &data, std::string_view piece) {
  std::map<std::string, int32_t> ranks;
  for (size_t i = 0; i < data.baseTokens.size(); ++i)
    ranks[data.baseTokens[i]] = static_cast<int32_t>(i);
  std::vector<std::string> parts;
  for (char c : piece)
    parts.push_back(std::string(1, c));
  while (true) {
    int32_t best = INT32_MAX;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      auto it = ranks.find(parts[i] + parts[i + 1]);
      if (it != ranks.end() && it->second < best) {
        best = it->second;
        at = i;
      }
    }
    if (best == INT32_MAX)
      break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string &part : parts)
    ids.push_back(ranks[part]);
  return ids;
}

// Ranks here are in random order, so a token may be reachable only through
// pairs that rank higher than it: the case that rebuilt merge lists get wrong.
TEST(Tokenizer, MergesByLowestRank) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> more;
    for (int length : {2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8})
      for (int copy = 0; copy < 2; ++copy) {
        std::string token;
        for (int i = 0; i < length; ++i)
          token += static_cast<char>('a' + random() % 3);
        if (std::find(more.begin(), more.end(), token) == more.end())
          more.push_back(token);
      }
    std::shuffle(more.begin(), more.end(), random);
    TokenizerData data = byteTokenizerData(more);
    OwnedTokenizer owned = makeTokenizer(data);
    for (int i = 0; i < 10; ++i) {
      std::string text;
      for (size_t length = 1 + random() % 60; length > 0; --length)
        text += static_cast<char>('a' + random() % 3);
      // A piece that is a token as a whole is that token, as in tiktoken.
      auto whole =
          std::find(data.baseTokens.begin(), data.baseTokens.end(), text);
      Ids expected =
          whole != data.baseTokens.end()
              ? Ids{static_cast<int32_t>(whole - data.baseTokens.begin())}
              : mergeByTheBook(data, text);
      ASSERT_EQ(encode(*owned.tokenizer, text), expected) << text;
    }
  }
}

// A quadratic merge needs minutes for these, a nested matcher overflows.
TEST(Tokenizer, LongPiecesTakeLinearSpaceAndLittleTime) {
  OwnedTokenizer owned = makeTokenizer(byteTokenizerData(
      {"aa", "aaaa", "aaaaaaaa", "aaaaaaaaaaaaaaaa", "  ", "    "}));
  std::string han;
  for (int i = 0; i < 100000; ++i)
    appendUtf8(han, 0x4E00 + static_cast<uint32_t>(i % 20000));
  std::string marks = "e";
  for (int i = 0; i < 100000; ++i)
    appendUtf8(marks, 0x0301);
  auto start = std::chrono::steady_clock::now();
  for (const std::string &text :
       {std::string(1000000, 'a'), std::string(1000000, 'A'),
        std::string(1000000, ' '), std::string(1000000, ' ') + "x",
        std::string(1000000, '\n'), std::string(1000000, '!'),
        std::string(1000000, '7'), std::string(1000000, 'A') + "a", han, marks,
        std::string(1000000, '\'')}) {
    Ids ids = encode(*owned.tokenizer, text);
    ASSERT_EQ(decode(*owned.tokenizer, ids), text);
  }
  std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - start;
  EXPECT_LT(time.count(), 60);
  EXPECT_EQ(encode(*owned.tokenizer, std::string(1000000, 'a')).size(), 62500u);
}

TEST(Tokenizer, NamesTheByteOfInvalidUtf8) {
  Ids ids = {1};
  std::string error;
  EXPECT_FALSE(modelTokenizer("k3-nano").encode(
      "Hello\xFFworld", AllowSpecial::no, ids, error));
  EXPECT_EQ(error, "text is not valid UTF-8 at byte 5");
  EXPECT_EQ(ids, Ids{1});
}

// T03: names of control tokens in a text are plain text unless asked for.
TEST(Tokenizer, SpecialsOnlyWhereAllowed) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  for (const SpecialToken &special : tokenizer.data().read().specialTokens) {
    std::string text = "a " + special.content + " b";
    Ids plain = encode(tokenizer, text, AllowSpecial::no);
    for (int32_t id : plain)
      EXPECT_LT(id, 4096) << special.content;
    EXPECT_EQ(decode(tokenizer, plain), text);
    Ids allowed = encode(tokenizer, text, AllowSpecial::yes);
    EXPECT_EQ(std::count(allowed.begin(), allowed.end(), special.id), 1)
        << special.content;
    EXPECT_EQ(decode(tokenizer, allowed), text);
  }
  EXPECT_EQ(encode(tokenizer, "[BOS][EOS]", AllowSpecial::yes),
            (Ids{4096, 4097}));
  EXPECT_EQ(encode(tokenizer, "", AllowSpecial::yes), Ids{});
}

TEST(Tokenizer, LongestSpecialWinsAtOnePlace) {
  TokenizerData data = byteTokenizerData();
  data.specialTokens = {{256, "<a>"}, {257, "<a><b>"}, {258, "<"}};
  OwnedTokenizer owned = makeTokenizer(data);
  EXPECT_EQ(encode(*owned.tokenizer, "<a><b><a>x<", AllowSpecial::yes),
            (Ids{257, 256, 'x', 258}));
}

// T02: reserved ids without a name.
TEST(Tokenizer, DecodesEveryIdOfTheVocabulary) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  for (int32_t id = 0; id < 4352; ++id) {
    std::string shown = decode(tokenizer, {id});
    EXPECT_NE(shown, "") << id;
    EXPECT_EQ(decode(tokenizer, {id}, SpecialText::skip),
              id < 4096 ? shown : "");
  }
  EXPECT_EQ(decode(tokenizer, {4104}), "<|reserved_token_4104|>");
}

TEST(Tokenizer, RefusesIdsOutsideTheVocabulary) {
  for (int32_t bad : {-1, 4352, INT32_MAX, INT32_MIN}) {
    int32_t ids[] = {5, bad};
    std::string bytes = "kept", error;
    EXPECT_FALSE(modelTokenizer("k3-nano").decode(ids, 2, SpecialText::show,
                                                  bytes, error));
    EXPECT_EQ(error, "token id " + std::to_string(bad) +
                         " at position 1 is outside the vocabulary of 4352");
    EXPECT_EQ(bytes, "kept");
  }
}

// G04: pad, unknown, media and reserved ids are not for sampling.
TEST(Tokenizer, ListsIdsThatAreNeverSampled) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  std::vector<int32_t> never = tokenizer.neverSampledIds();
  auto has = [&](const char *name) {
    return std::count(never.begin(), never.end(), *tokenizer.specialId(name));
  };
  for (const char *name : {"[PAD]", "[UNK]", "[BOS]", "<|media_pad|>"})
    EXPECT_EQ(has(name), 1) << name;
  for (const char *name :
       {"[EOS]", "<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>"})
    EXPECT_EQ(has(name), 0) << name;
  EXPECT_EQ(std::count(never.begin(), never.end(), 4104), 1);
  for (int32_t id : never)
    EXPECT_GE(id, 4096);
}
} // namespace
