//===- StreamDecoderTest.cpp - token ids to text, one at a time ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/StreamDecoder.h"

#include "test/unit/Text/TestTokenizer.h"

#include "gtest/gtest.h"

#include <random>

using namespace k3rt;
using namespace k3rt::test;

namespace {
/// Decodes one id at a time and checks that each piece is valid UTF-8.
std::string stream(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
                   SpecialText special) {
  StreamDecoder decoder(tokenizer, special);
  std::string all, error;
  for (int32_t id : ids) {
    std::string piece;
    EXPECT_TRUE(decoder.push(id, piece, error)) << error;
    EXPECT_EQ(findInvalidUtf8(piece), piece.size());
    all += piece;
  }
  decoder.finish(all);
  return all;
}

std::string oneShot(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
                    SpecialText special) {
  std::string text, error;
  EXPECT_TRUE(
      tokenizer.decodeText(ids.data(), ids.size(), special, text, error));
  return text;
}

// T04: emoji, CJK and combining marks, one token per byte.
TEST(StreamDecoder, NeverSplitsACharacter) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  for (std::string text :
       {"👍🏽 👩‍👩‍👧‍👦 family", "混合汉字。全角！", "e\xCC\x81" "a\xCC\x80 नमस्ते",
        "plain"}) {
    std::vector<int32_t> ids = encode(tokenizer, text);
    EXPECT_EQ(stream(tokenizer, ids, SpecialText::skip), text);
  }
}

TEST(StreamDecoder, GivesACharacterWithItsLastByte) {
  OwnedTokenizer owned = makeTokenizer(byteTokenizerData());
  StreamDecoder decoder(*owned.tokenizer);
  std::string error;
  std::vector<std::string> pieces;
  for (int32_t id : {0xE6, 0xB1, 0x89, 0x78}) {
    pieces.emplace_back();
    ASSERT_TRUE(decoder.push(id, pieces.back(), error));
  }
  EXPECT_EQ(pieces, (std::vector<std::string>{"", "", "汉", "x"}));
}

TEST(StreamDecoder, EqualsOneShotDecodingOfAnyIds) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 40; ++i)
      ids.push_back(
          static_cast<int32_t>(random() % (random() % 2 ? 256 : 4352)));
    for (SpecialText special : {SpecialText::skip, SpecialText::show})
      ASSERT_EQ(stream(tokenizer, ids, special),
                oneShot(tokenizer, ids, special));
  }
}

// T04: invalid bytes do not wait for ever, the end flushes.
TEST(StreamDecoder, ReplacesInvalidBytes) {
  OwnedTokenizer owned = makeTokenizer(byteTokenizerData());
  StreamDecoder decoder(*owned.tokenizer);
  std::string text, error;
  for (int32_t id : {0xE6, 0xB1, 0x78})
    ASSERT_TRUE(decoder.push(id, text, error));
  EXPECT_EQ(text, "\xEF\xBF\xBDx");
  ASSERT_TRUE(decoder.push(0xF0, text, error));
  decoder.finish(text);
  EXPECT_EQ(text, "\xEF\xBF\xBDx\xEF\xBF\xBD");
}

TEST(StreamDecoder, RefusesUnknownIds) {
  StreamDecoder decoder(modelTokenizer("k3-nano"));
  std::string text, error;
  EXPECT_FALSE(decoder.push(4352, text, error));
  EXPECT_NE(error.find("4352"), std::string::npos);
}
} // namespace
