//===- TokenizerFilesTest.cpp - tokenizer files good and bad --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/TokenizerFiles.h"
#include "TestSupport.h"

#include <functional>

using namespace k3::frontend;
using namespace k3::test;

static std::string encodeBase64(const std::string &bytes) {
  static const char alphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 |
              (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j)
      out += j <= count ? alphabet[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

static std::string line(const std::string &token, int rank) {
  return encodeBase64(token) + ' ' + std::to_string(rank) + '\n';
}

/// The 256 single bytes, ranks 0 to 255.
static std::string byteLines() {
  std::string text;
  for (int i = 0; i < 256; ++i)
    text += line(std::string(1, static_cast<char>(i)), i);
  return text;
}

static std::string ranksError(const std::string &text) {
  return parseTokenRanks(text, "tiktoken.model").message();
}

TEST(TokenRanksTest, Parses) {
  Expected<TokenRanks> ranks =
      parseTokenRanks(byteLines() + line("hello", 256) + line("ab", 257), "t");
  ASSERT_TRUE(ranks.ok()) << ranks.message();
  ASSERT_EQ(ranks->tokens.size(), 258u);
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(ranks->tokens[i], std::string(1, static_cast<char>(i)));
  EXPECT_EQ(ranks->tokens[256], "hello");
  EXPECT_EQ(ranks->tokens[257], "ab");
}

TEST(TokenRanksTest, LineEndsAndOrderDoNotMatter) {
  std::string lines = line("xyz", 256) + "\n" + byteLines();
  Expected<TokenRanks> ranks = parseTokenRanks(lines, "t");
  ASSERT_TRUE(ranks.ok()) << ranks.message();
  EXPECT_EQ(ranks->tokens[256], "xyz");
  std::string crlf;
  for (char c : lines)
    crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(parseTokenRanks(crlf, "t").ok());
  EXPECT_TRUE(parseTokenRanks(lines.substr(0, lines.size() - 1), "t").ok());
}

TEST(TokenRanksTest, Refused) {
  const std::string bytes = byteLines();
  expectMessage(ranksError(bytes + line("ab", 7)),
                {"tiktoken.model:257", "rank 7 appears twice", "line 8"});
  expectMessage(ranksError(bytes + line("a", 256)),
                {"tiktoken.model:257", "\"a\" appears twice", "line 98"});
  expectMessage(ranksError(bytes + line("ab", 258)),
                {"tiktoken.model", "rank 256 is missing", "0 to 258"});
  expectMessage(ranksError(bytes + "YWI= -1\n"), {":257", "rank is \"-1\""});
  for (const char *rank : {"", "x", "1.5", "0257", "+5", " 5",
                           "99999999999999999999", "2097152", "256 257"})
    expectMessage(ranksError(bytes + "YWI= " + rank + "\n"),
                  {":257", "rank is"});
  for (const char *token : {"YWI", "YW=I", "Y===", "====", "YW I=", "YWJ=",
                            "YX==", "Y@I=", "YW\xff="})
    expectMessage(ranksError(bytes + token + " 256\n"), {":257"});
  expectMessage(ranksError(bytes + "YWI=\n"), {":257", "a space and its rank"});
  expectMessage(ranksError(bytes + " 256\n"), {":257", "base64"});
  expectMessage(ranksError(bytes + line(std::string(5000, 'x'), 256)),
                {":257", "5000 bytes", "at most 4096"});
  expectMessage(ranksError(""), {"no token"});
  expectMessage(ranksError("\n\n"), {"no token"});
  expectMessage(ranksError(line("ab", 0)), {"byte 0 is not a token"});
  expectMessage(ranksError(std::string(100000, 'A')),
                {":1", "a space and its rank"});
  expectMessage(ranksError("\x1b[31m\n"), {":1", "\\x1b"});
}

static std::string tokenizerError(const std::string &json) {
  return parseTokenizerConfig(json, "tokenizer_config.json").message();
}

TEST(TokenizerConfigTest, Parses) {
  Expected<TokenizerConfig> config = parseTokenizerConfig(
      R"({"added_tokens_decoder": {"11": {"content": "[EOS]", "special": true}, "10": {"content": "<|x|>", "special": false},
          "12": {"content": "[PAD]"}}, "bos_token": null, "eos_token": "[EOS]", "pad_token": {"content": "[PAD]"}})",
      "t");
  ASSERT_TRUE(config.ok()) << config.message();
  ASSERT_EQ(config->added_tokens.size(), 3u);
  EXPECT_EQ(config->added_tokens[0].id, 10);
  EXPECT_FALSE(config->added_tokens[0].special);
  EXPECT_TRUE(config->added_tokens[1].special);
  EXPECT_EQ(config->find("[PAD]")->id, 12);
  EXPECT_EQ(config->find("nothing"), nullptr);
  EXPECT_EQ(config->bos_token, std::nullopt);
  EXPECT_EQ(config->eos_token, "[EOS]");
  EXPECT_EQ(config->pad_token, "[PAD]");
}

TEST(TokenizerConfigTest, Refused) {
  auto decoder = [](const std::string &members) {
    return R"({"added_tokens_decoder": {)" + members + "}}";
  };
  expectMessage(tokenizerError("[]"), {"tokenizer_config.json:1:1", "a list"});
  expectMessage(tokenizerError(R"({"added_tokens_decoder": []})"),
                {"added_tokens_decoder", "a list"});
  expectMessage(tokenizerError(decoder(R"("x": {"content": "a"})")),
                {"added_tokens_decoder.x", "token id"});
  for (const char *id : {"-1", "01", "", "1.0", "99999999999999999999"})
    expectMessage(tokenizerError(decoder('"' + std::string(id) +
                                         R"(": {"content": "a"})")),
                  {"added_tokens_decoder.", "token id"});
  expectMessage(tokenizerError(decoder(R"("1": "a")")),
                {"added_tokens_decoder.1", "\"a\"", "content"});
  expectMessage(tokenizerError(decoder(R"("1": {})")),
                {"added_tokens_decoder.1", "content"});
  expectMessage(tokenizerError(decoder(R"("1": {"content": ""})")),
                {"added_tokens_decoder.1.content"});
  expectMessage(tokenizerError(decoder(R"("1": {"content": 5})")),
                {"added_tokens_decoder.1.content", "got 5"});
  expectMessage(
      tokenizerError(decoder(R"("1": {"content": "a", "special": 1})")),
      {"added_tokens_decoder.1.special"});
  expectMessage(tokenizerError(
                    decoder(R"("1": {"content": "a"}, "2": {"content": "a"})")),
                {"\"a\"", "1 and to 2"});
  expectMessage(tokenizerError(
                    decoder(R"("1": {"content": "a"}, "1": {"content": "b"})")),
                {"\"1\"", "twice"});
  expectMessage(tokenizerError(R"({"bos_token": 5})"),
                {"bos_token", "got 5", "a string"});
}

TEST(GenerationConfigTest, Parses) {
  Expected<GenerationConfig> config = parseGenerationConfig(
      R"({"eos_token_id": [2, 3], "temperature": 0.7, "top_p": 0.95, "top_k": 50, "do_sample": true, "repetition_penalty": 1, "max_length": 100})",
      "g");
  ASSERT_TRUE(config.ok()) << config.message();
  EXPECT_EQ(config->eos_token_id, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(config->temperature, 0.7);
  EXPECT_EQ(config->top_p, 0.95);
  EXPECT_EQ(config->top_k, 50);
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->repetition_penalty, 1.0);
  EXPECT_EQ(config->min_p, std::nullopt);
  EXPECT_EQ(parseGenerationConfig(R"({"eos_token_id": 5})", "g")->eos_token_id,
            std::vector<int64_t>{5});
}

TEST(GenerationConfigTest, Refused) {
  for (auto [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"temperature", "-0.1"},
           {"temperature", "\"1\""},
           {"temperature", "1e300"},
           {"top_p", "1.5"},
           {"top_p", "-1"},
           {"min_p", "2"},
           {"top_k", "-1"},
           {"top_k", "1.5"},
           {"repetition_penalty", "0"},
           {"eos_token_id", "-1"},
           {"eos_token_id", "[1, true]"},
           {"eos_token_id", "\"a\""},
           {"do_sample", "1"},
           {"max_length", "-1"},
           {"bos_token_id", "{}"}})
    expectMessage(parseGenerationConfig("{\"" + key + "\": " + value + "}",
                                        "generation_config.json")
                      .message(),
                  {"generation_config.json:1:", key + ": got"});
}

static Expected<TokenizerFiles> readAll(const TempDir &dir) {
  Expected<ModelConfig> model = readModelConfig(dir.file("config.json"));
  EXPECT_TRUE(model.ok()) << model.message();
  return readTokenizerFiles(dir.path(), *model);
}

TEST(TokenizerFilesTest, ShippedModels) {
  for (const char *name : {"k3-nano", "kimi-linear-nano"}) {
    ModelCopy model(name);
    Expected<TokenizerFiles> files = readAll(model);
    ASSERT_TRUE(files.ok()) << files.message();
    EXPECT_EQ(files->ranks.tokens.size(), 4096u);
    EXPECT_EQ(files->ranks.tokens[0], "!");
    EXPECT_EQ(files->ranks.tokens[4095], " murmured");
    EXPECT_EQ(files->config.find("[BOS]")->id, 4096);
    EXPECT_EQ(files->config.find("[PAD]")->id, 4351);
    EXPECT_EQ(files->generation.eos_token_id, std::vector<int64_t>{4098});
    EXPECT_EQ(files->generation.max_length, 1048576);
    fs::remove(model.file("generation_config.json"));
    EXPECT_TRUE(readAll(model).ok());
  }
}

TEST(TokenizerFilesTest, MissingFiles) {
  for (const char *name : {"tiktoken.model", "tokenizer_config.json"}) {
    ModelCopy model("k3-nano");
    fs::remove(model.file(name));
    expectMessage(readAll(model).message(), {name, "cannot open"});
  }
}

// A tokenizer that was converted and renumbered must not pass.
TEST(TokenizerFilesTest, DisagreesWithTheModel) {
  auto edited = [](const char *file, const std::function<void(Json &)> &edit) {
    ModelCopy model("k3-nano");
    model.editJson(file, edit);
    return readAll(model).message();
  };
  const char *tokenizer = "tokenizer_config.json";
  expectMessage(edited(tokenizer,
                       [](Json &j) {
                         j["added_tokens_decoder"]["4095"]["content"] = "x";
                       }),
                {tokenizer, "added_tokens_decoder.4095", "4096"});
  expectMessage(edited(tokenizer,
                       [](Json &j) {
                         j["added_tokens_decoder"]["4352"]["content"] = "x";
                       }),
                {tokenizer, "added_tokens_decoder.4352", "vocab_size 4352"});
  expectMessage(
      edited(tokenizer, [](Json &j) { j["bos_token"] = "[EOS]"; }),
      {tokenizer, "bos_token", "4097", "config.json says bos_token_id 4096"});
  expectMessage(edited(tokenizer, [](Json &j) { j["pad_token"] = "[UNK]"; }),
                {tokenizer, "pad_token", "4350", "4351"});
  expectMessage(edited(tokenizer, [](Json &j) { j["bos_token"] = "<s>"; }),
                {tokenizer, "bos_token", "\"<s>\""});
  expectMessage(
      edited(tokenizer,
             [](Json &j) { j["added_tokens_decoder"].erase("4098"); }),
      {tokenizer, "4098", "eos_token_id"});
  expectMessage(
      edited("generation_config.json",
             [](Json &j) { j["eos_token_id"] = 4352; }),
      {"generation_config.json", "eos_token_id", "4352", "vocab_size"});
  ModelCopy model("k3-nano");
  model.editJson("config.json", [](Json &j) {
    for (const char *key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      j[key] = 1;
      j["text_config"][key] = 1;
    }
    j["text_config"]["vocab_size"] = 4000;
  });
  expectMessage(readAll(model).message(),
                {"tiktoken.model", "4096 tokens", "vocab_size 4000"});
}

TEST(TokenizerFilesTest, DuplicateRank) {
  ModelCopy model("k3-nano");
  std::string text = slurp(model.file("tiktoken.model"));
  text.replace(text.find("Ig== 1\n"), 7, "Ig== 0\n");
  spill(model.file("tiktoken.model"), text);
  expectMessage(readAll(model).message(),
                {"tiktoken.model:2", "rank 0 appears twice", "line 1"});
}
