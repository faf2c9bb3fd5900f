//===- TokenizerBlobTest.cpp - the tokenizer as bytes in the artifact ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Text/TestTokenizer.h"

#include "gtest/gtest.h"

#include <chrono>
#include <cstring>
#include <random>
#include <set>

using namespace k3rt;
using namespace k3rt::test;

namespace {
std::string serializeError(const TokenizerData &data) {
  std::vector<uint8_t> blob = {1, 2, 3};
  std::string error;
  EXPECT_FALSE(serializeTokenizer(data, blob, error));
  EXPECT_EQ(blob.size(), 3u) << "must stay unchanged";
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

std::string openError(const std::vector<uint8_t> &blob) {
  std::string error;
  EXPECT_EQ(Tokenizer::open(blob.data(), blob.size(), error), nullptr);
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

TEST(TokenizerBlob, GivesBackWhatItWasMadeFrom) {
  TokenizerData data = modelTokenizerData("k3-nano");
  OwnedTokenizer owned = makeTokenizer(data);
  TokenizerData back = owned.tokenizer->data().read();
  EXPECT_EQ(back.baseTokens, data.baseTokens);
  EXPECT_EQ(back.vocabSize, 4352u);
  ASSERT_EQ(back.specialTokens.size(), data.specialTokens.size());
  for (const SpecialToken &special : data.specialTokens) {
    EXPECT_EQ(owned.tokenizer->specialId(special.content), special.id);
    EXPECT_EQ(owned.tokenizer->specialName(special.id), special.content);
  }
}

TEST(TokenizerBlob, WorksAtAnyAddress) {
  std::vector<uint8_t> blob;
  std::string error;
  ASSERT_TRUE(serializeTokenizer(byteTokenizerData({"ab"}), blob, error));
  std::vector<uint8_t> shifted(blob.size() + 1);
  std::memcpy(shifted.data() + 1, blob.data(), blob.size());
  auto tokenizer = Tokenizer::open(shifted.data() + 1, blob.size(), error);
  ASSERT_NE(tokenizer, nullptr) << error;
  EXPECT_EQ(encode(*tokenizer, "ab"), std::vector<int32_t>{256});
}

// T06: the hash tells tokenizers apart that differ in a rank or a special.
TEST(TokenizerBlob, ContentHashNamesTheTokenizer) {
  std::set<uint64_t> hashes;
  TokenizerData data = byteTokenizerData({"ab", "cd"});
  data.specialTokens = {{258, "[BOS]"}, {259, "[EOS]"}};
  hashes.insert(makeTokenizer(data).tokenizer->contentHash());
  std::swap(data.baseTokens[256], data.baseTokens[257]);
  hashes.insert(makeTokenizer(data).tokenizer->contentHash());
  std::swap(data.specialTokens[0].id, data.specialTokens[1].id);
  hashes.insert(makeTokenizer(data).tokenizer->contentHash());
  data.vocabSize += 1;
  hashes.insert(makeTokenizer(data).tokenizer->contentHash());
  EXPECT_EQ(hashes.size(), 4u);
  EXPECT_EQ(modelTokenizer("k3-nano").contentHash(),
            makeTokenizer(modelTokenizerData("k3-nano"))
                .tokenizer->contentHash());
  EXPECT_NE(modelTokenizer("k3-nano").contentHash(),
            modelTokenizer("kimi-linear-nano").contentHash());
}

TEST(TokenizerBlob, RefusesBadData) {
  TokenizerData data = byteTokenizerData({"ab", "cd", "ab"});
  EXPECT_EQ(serializeError(data),
            "tokenizer: tokens 256 and 258 have the same bytes 0x6162");
  data.baseTokens[258] = "";
  EXPECT_EQ(serializeError(data), "tokenizer: token 258 is empty");
  data.baseTokens[258] = "x";
  EXPECT_NE(serializeError(data).find("same bytes 0x78"), std::string::npos);
  data = byteTokenizerData();
  data.baseTokens[7] = "other";
  EXPECT_EQ(serializeError(data),
            "tokenizer: no token for the single byte 0x07");
  data = byteTokenizerData();
  data.specialTokens = {{255, "[BOS]"}};
  EXPECT_EQ(serializeError(data),
            "tokenizer: special token 255 is outside [256, 272)");
  data.specialTokens = {{272, "[BOS]"}};
  EXPECT_EQ(serializeError(data),
            "tokenizer: special token 272 is outside [256, 272)");
  data.specialTokens = {{256, "[BOS]"}, {257, "[BOS]"}};
  EXPECT_EQ(serializeError(data),
            "tokenizer: special token '[BOS]' has two ids");
  data.specialTokens = {{256, "[BOS]"}, {256, "[EOS]"}};
  EXPECT_NE(serializeError(data).find("must be distinct"), std::string::npos);
  data.specialTokens = {{256, "\xFF"}};
  EXPECT_NE(serializeError(data).find("not UTF-8"), std::string::npos);
  data.specialTokens = {{256, ""}};
  EXPECT_NE(serializeError(data).find("name of special token 256"),
            std::string::npos);
  data.specialTokens.clear();
  data.vocabSize = 255;
  EXPECT_NE(serializeError(data).find("do not fit"), std::string::npos);
}

TEST(TokenizerBlob, RefusesEveryTruncation) {
  std::vector<uint8_t> blob;
  std::string error;
  TokenizerData data = byteTokenizerData({"ab"});
  data.specialTokens = {{257, "[BOS]"}};
  ASSERT_TRUE(serializeTokenizer(data, blob, error));
  for (size_t size = 0; size < blob.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer sees any overrun.
    std::vector<uint8_t> part(blob.begin(), blob.begin() + size);
    EXPECT_NE(openError(part), "");
  }
  blob.push_back(0);
  EXPECT_NE(openError(blob).find("its parts add up to"), std::string::npos);
}

// Every byte of the block is covered by some check.
TEST(TokenizerBlob, RefusesEveryFlippedByte) {
  std::vector<uint8_t> blob;
  std::string error;
  TokenizerData data = byteTokenizerData({"ab"});
  data.specialTokens = {{257, "[BOS]"}};
  ASSERT_TRUE(serializeTokenizer(data, blob, error));
  for (size_t at = 0; at < blob.size(); ++at)
    for (uint8_t flip : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> damaged = blob;
      damaged[at] ^= flip;
      EXPECT_NE(openError(damaged), "") << at;
    }
}

TEST(TokenizerBlob, NamesBothVersions) {
  std::vector<uint8_t> blob;
  std::string error;
  ASSERT_TRUE(serializeTokenizer(byteTokenizerData(), blob, error));
  blob[4] = 9;
  EXPECT_EQ(openError(blob),
            "tokenizer: version 9 is not supported, this build reads version "
            "1; compile the model again");
}

// The real vocabulary has 163,584 base tokens and opens in under 20 ms; the
// bound here leaves room for a busy machine and sanitizers.
TEST(TokenizerBlob, OpensAFullVocabularyQuickly) {
  std::mt19937 random(1);
  TokenizerData data = byteTokenizerData();
  std::set<std::string> used(data.baseTokens.begin(), data.baseTokens.end());
  while (data.baseTokens.size() < 163584) {
    std::string token(2 + random() % 10, 0);
    for (char &c : token)
      c = static_cast<char>(random());
    if (used.insert(token).second)
      data.baseTokens.push_back(token);
  }
  data.vocabSize = 163840;
  std::vector<uint8_t> blob;
  std::string error;
  ASSERT_TRUE(serializeTokenizer(data, blob, error)) << error;
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    auto start = std::chrono::steady_clock::now();
    auto tokenizer = Tokenizer::open(blob.data(), blob.size(), error);
    std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - start;
    ASSERT_NE(tokenizer, nullptr) << error;
    best = std::min(best, time.count());
  }
  RecordProperty("open_ms", std::to_string(best));
  EXPECT_LT(best, 200);
}
} // namespace
