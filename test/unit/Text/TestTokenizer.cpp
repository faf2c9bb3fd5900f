//===- TestTokenizer.cpp - tokenizers for the tests ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Text/TestTokenizer.h"

#include "gtest/gtest.h"

#include <fstream>
#include <map>
#include <sstream>

namespace k3rt::test {

std::string readFile(const std::string &path) {
  std::ifstream file(std::string(K3_SOURCE_DIR) + "/" + path,
                     std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json readJson(const std::string &path) {
  return nlohmann::json::parse(readFile(path));
}

namespace {
std::string decodeBase64(const std::string &text) {
  static const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=')
      break;
    bits = bits << 6 | static_cast<uint32_t>(alphabet.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count);
    }
  }
  return bytes;
}
} // namespace

TokenizerData modelTokenizerData(const std::string &name) {
  TokenizerData data;
  std::istringstream ranks(readFile("models/" + name + "/tiktoken.model"));
  std::string bytes;
  size_t rank;
  while (ranks >> bytes >> rank) {
    EXPECT_EQ(rank, data.baseTokens.size());
    data.baseTokens.push_back(decodeBase64(bytes));
  }
  nlohmann::json config =
      readJson("models/" + name + "/tokenizer_config.json");
  for (auto &[id, token] : config["added_tokens_decoder"].items())
    data.specialTokens.push_back(
        {std::stoi(id), token["content"].get<std::string>()});
  data.vocabSize = static_cast<uint32_t>(data.baseTokens.size()) + 256;
  return data;
}

OwnedTokenizer makeTokenizer(const TokenizerData &data) {
  OwnedTokenizer owned;
  std::string error;
  EXPECT_TRUE(serializeTokenizer(data, owned.blob, error)) << error;
  owned.tokenizer =
      Tokenizer::open(owned.blob.data(), owned.blob.size(), error);
  EXPECT_NE(owned.tokenizer, nullptr) << error;
  return owned;
}

const Tokenizer &modelTokenizer(const std::string &name) {
  static std::map<std::string, OwnedTokenizer> made;
  auto it = made.find(name);
  if (it == made.end())
    it = made.emplace(name, makeTokenizer(modelTokenizerData(name))).first;
  return *it->second.tokenizer;
}

TokenizerData byteTokenizerData(const std::vector<std::string> &more) {
  TokenizerData data;
  for (int byte = 0; byte < 256; ++byte)
    data.baseTokens.push_back(std::string(1, static_cast<char>(byte)));
  data.baseTokens.insert(data.baseTokens.end(), more.begin(), more.end());
  data.vocabSize = static_cast<uint32_t>(data.baseTokens.size()) + 16;
  return data;
}

std::vector<int32_t> encode(const Tokenizer &tokenizer, std::string_view text,
                            AllowSpecial allow) {
  std::vector<int32_t> ids;
  std::string error;
  EXPECT_TRUE(tokenizer.encode(text, allow, ids, error)) << error;
  return ids;
}

std::string decode(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
                   SpecialText special) {
  std::string bytes, error;
  EXPECT_TRUE(tokenizer.decode(ids.data(), ids.size(), special, bytes, error))
      << error;
  return bytes;
}

} // namespace k3rt::test
