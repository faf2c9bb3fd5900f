//===- TokenizerFiles.cpp - tokenizer and generation settings of a model --===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/TokenizerFiles.h"
#include "frontend/File.h"
#include "frontend/Json.h"
#include "frontend/Text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>

namespace k3::frontend {

namespace {

// Ten times any published tokenizer, so that a hostile file costs little.
constexpr uint64_t maxRanksFile = uint64_t(32) << 20;
constexpr uint64_t maxConfigFile = uint64_t(4) << 20;
constexpr int64_t maxVocab = int64_t(1) << 21;
constexpr size_t maxTokenBytes = 4096;

constexpr const char *ranksName = "tiktoken.model";
constexpr const char *configName = "tokenizer_config.json";
constexpr const char *generationName = "generation_config.json";

/// Strict RFC 4648 base64 with padding; nullopt if malformed.
std::optional<std::string> decodeBase64(std::string_view text) {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> table;
    table.fill(-1);
    const char *alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                           "yz0123456789+/";
    for (int8_t i = 0; i < 64; ++i)
      table[static_cast<unsigned char>(alphabet[i])] = i;
    return table;
  }();
  if (text.empty() || text.size() % 4 != 0)
    return std::nullopt;
  size_t padding = text.back() != '='             ? 0
                   : text[text.size() - 2] != '=' ? 1
                                                  : 2;
  std::string out;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    const size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    for (size_t j = 0; j < 4; ++j) {
      int8_t value =
          j < digits ? values[static_cast<unsigned char>(text[i + j])] : 0;
      if (value < 0)
        return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    // Bits that no byte uses must be zero, or two texts decode alike.
    if ((digits == 3 && (group & 0xff)) || (digits == 2 && (group & 0xffff)))
      return std::nullopt;
    for (size_t j = 0; j + 1 < digits; ++j)
      out += static_cast<char>(group >> (16 - 8 * j) & 0xff);
  }
  return out;
}

std::optional<int64_t> parseId(std::string_view text) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool canonical =
      !text.empty() && text[0] != '-' && (text[0] != '0' || text.size() == 1);
  if (error != std::errc() || end != text.data() + text.size() || !canonical)
    return std::nullopt;
  return value;
}

/// Typed reads of one flat object; the first error sticks.
class FieldReader {
public:
  FieldReader(std::string_view text, const std::string &fileName)
      : text(text), fileName(fileName) {
    Expected<JsonValue> tree = parseJsonTree(text, fileName);
    if (!tree) {
      status = tree.status();
      return;
    }
    root = std::move(*tree);
    if (!root.isObject())
      status = Status::error(placePrefix(text, root.offset, fileName) + "got " +
                             root.describe() + ", wanted an object");
  }

  bool ok() const { return status.ok(); }
  const Status &error() const { return status; }
  void fail(const JsonValue &got, const std::string &key,
            const std::string &wanted) {
    if (ok())
      status = Status::error(placePrefix(text, got.offset, fileName) + key +
                             ": got " + got.describe() + ", wanted " + wanted);
  }
  const JsonValue *find(const char *key) const {
    const JsonValue *value = ok() ? root.find(key) : nullptr;
    return value && !value->isNull() ? value : nullptr;
  }
  std::optional<int64_t> integer(const char *key, int64_t low, int64_t high) {
    const JsonValue *value = find(key);
    if (!value)
      return std::nullopt;
    return integerValue(*value, key, low, high);
  }
  std::optional<int64_t> integerValue(const JsonValue &value, const char *key,
                                      int64_t low, int64_t high) {
    if (value.kind == JsonValue::Kind::Integer && value.integer >= low &&
        value.integer <= high)
      return value.integer;
    fail(value, key,
         "a whole number from " + std::to_string(low) + " to " +
             std::to_string(high));
    return std::nullopt;
  }
  std::optional<double> real(const char *key, double low, double high,
                             const char *wanted) {
    const JsonValue *value = find(key);
    if (!value)
      return std::nullopt;
    bool isNumber = value->kind == JsonValue::Kind::Integer ||
                    value->kind == JsonValue::Kind::Real;
    if (isNumber && value->real >= low && value->real <= high)
      return value->real;
    fail(*value, key, wanted);
    return std::nullopt;
  }
  std::optional<bool> boolean(const char *key) {
    const JsonValue *value = find(key);
    if (!value)
      return std::nullopt;
    if (value->kind == JsonValue::Kind::Bool)
      return value->boolean;
    fail(*value, key, "true or false");
    return std::nullopt;
  }
  /// A token's content: a string, or an object with a content string.
  std::optional<std::string> content(const char *key) {
    const JsonValue *value = find(key);
    if (!value)
      return std::nullopt;
    const JsonValue *inner = value->isObject() ? value->find("content") : value;
    if (inner && inner->kind == JsonValue::Kind::String)
      return inner->string;
    fail(*value, key, "a string");
    return std::nullopt;
  }

private:
  std::string_view text;
  const std::string &fileName;
  JsonValue root;
  Status status;
};

} // namespace

const SpecialToken *TokenizerConfig::find(std::string_view content) const {
  for (const SpecialToken &token : added_tokens)
    if (token.content == content)
      return &token;
  return nullptr;
}

Expected<TokenRanks> parseTokenRanks(std::string_view text,
                                     const std::string &fileName) {
  size_t lineNumber = 0;
  auto fail = [&](const std::string &message) {
    return Status::error(printable(fileName) + ':' +
                         std::to_string(lineNumber) + ": " + message);
  };
  // Token bytes to (rank, line), ranks to line.
  std::unordered_map<std::string, std::pair<int64_t, size_t>> ranks;
  std::unordered_map<int64_t, size_t> lineOfRank;
  int64_t highest = -1;
  while (!text.empty()) {
    ++lineNumber;
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    if (line.empty())
      continue;
    size_t space = line.find(' ');
    if (space == std::string_view::npos)
      return fail("got " + quote(line, 60) +
                  ", wanted a token in base64, a space and its rank");
    std::string_view encoded = line.substr(0, space);
    std::optional<std::string> token = decodeBase64(encoded);
    if (!token)
      return fail(quote(encoded, 60) + " is not base64");
    if (token->size() > maxTokenBytes)
      return fail("token has " + std::to_string(token->size()) +
                  " bytes, wanted at most " + std::to_string(maxTokenBytes));
    std::optional<int64_t> rank = parseId(line.substr(space + 1));
    if (!rank || *rank >= maxVocab)
      return fail("rank is " + quote(line.substr(space + 1), 60) +
                  ", wanted a whole number from 0 to " +
                  std::to_string(maxVocab - 1));
    auto [same, isNew] = lineOfRank.try_emplace(*rank, lineNumber);
    if (!isNew)
      return fail("rank " + std::to_string(*rank) +
                  " appears twice, first in line " +
                  std::to_string(same->second));
    auto [twin, isNewToken] =
        ranks.try_emplace(std::move(*token), *rank, lineNumber);
    if (!isNewToken)
      return fail("token " + quote(twin->first, 60) +
                  " appears twice, first in line " +
                  std::to_string(twin->second.second));
    highest = std::max(highest, *rank);
  }
  const std::string file = printable(fileName) + ": ";
  if (highest < 0)
    return Status::error(file + "holds no token");
  for (int64_t rank = 0; rank <= highest; ++rank)
    if (!lineOfRank.count(rank))
      return Status::error(file + "rank " + std::to_string(rank) +
                           " is missing, wanted every rank from 0 to " +
                           std::to_string(highest));
  for (int byte = 0; byte < 256; ++byte)
    if (!ranks.count(std::string(1, static_cast<char>(byte))))
      return Status::error(file + "byte " + std::to_string(byte) +
                           " is not a token, wanted all 256 single bytes");
  TokenRanks result;
  result.tokens.resize(static_cast<size_t>(highest) + 1);
  while (!ranks.empty()) {
    auto node = ranks.extract(ranks.begin());
    result.tokens[static_cast<size_t>(node.mapped().first)] =
        std::move(node.key());
  }
  return result;
}

Expected<TokenizerConfig> parseTokenizerConfig(std::string_view json,
                                               const std::string &fileName) {
  FieldReader reader(json, fileName);
  TokenizerConfig config;
  config.bos_token = reader.content("bos_token");
  config.eos_token = reader.content("eos_token");
  config.pad_token = reader.content("pad_token");
  config.unk_token = reader.content("unk_token");
  if (const JsonValue *decoder = reader.find("added_tokens_decoder")) {
    if (!decoder->isObject())
      reader.fail(*decoder, "added_tokens_decoder",
                  "an object from token id to token");
    for (const auto &[key, value] : decoder->members) {
      const std::string place = "added_tokens_decoder." + printable(key, 40);
      std::optional<int64_t> id = parseId(key);
      if (!id || *id >= maxVocab) {
        reader.fail(value, place, "a token id as the key");
        break;
      }
      const JsonValue *content =
          value.isObject() ? value.find("content") : nullptr;
      if (!content || content->kind != JsonValue::Kind::String ||
          content->string.empty() || content->string.size() > maxTokenBytes) {
        reader.fail(content ? *content : value,
                    content ? place + ".content" : place,
                    content ? "a string of 1 to 4096 bytes"
                            : "an object with a content");
        break;
      }
      SpecialToken token;
      token.id = *id;
      token.content = content->string;
      if (const JsonValue *special = value.find("special")) {
        if (special->kind != JsonValue::Kind::Bool) {
          reader.fail(*special, place + ".special", "true or false");
          break;
        }
        token.special = special->boolean;
      }
      config.added_tokens.push_back(std::move(token));
    }
  }
  if (!reader.ok())
    return reader.error();
  std::sort(config.added_tokens.begin(), config.added_tokens.end(),
            [](const auto &a, const auto &b) { return a.id < b.id; });
  std::unordered_map<std::string_view, int64_t> ids;
  for (const SpecialToken &token : config.added_tokens) {
    auto [twin, isNew] = ids.try_emplace(token.content, token.id);
    if (!isNew)
      return Status::error(
          printable(fileName) + ": added_tokens_decoder: content " +
          quote(token.content) + " belongs to " + std::to_string(twin->second) +
          " and to " + std::to_string(token.id));
  }
  return config;
}

Expected<GenerationConfig> parseGenerationConfig(std::string_view json,
                                                 const std::string &fileName) {
  FieldReader reader(json, fileName);
  GenerationConfig config;
  config.bos_token_id = reader.integer("bos_token_id", 0, maxVocab);
  config.pad_token_id = reader.integer("pad_token_id", 0, maxVocab);
  if (const JsonValue *eos = reader.find("eos_token_id")) {
    auto add = [&](const JsonValue &value) {
      if (std::optional<int64_t> id =
              reader.integerValue(value, "eos_token_id", 0, maxVocab))
        config.eos_token_id.push_back(*id);
    };
    if (eos->kind == JsonValue::Kind::Array)
      std::for_each(eos->elements.begin(), eos->elements.end(), add);
    else
      add(*eos);
  }
  config.do_sample = reader.boolean("do_sample");
  config.temperature =
      reader.real("temperature", 0, 1e6, "a number from 0 to 1000000");
  config.top_p = reader.real("top_p", 0, 1, "a number from 0 to 1");
  config.min_p = reader.real("min_p", 0, 1, "a number from 0 to 1");
  config.top_k = reader.integer("top_k", 0, maxVocab);
  config.repetition_penalty = reader.real("repetition_penalty", 1e-6, 1e6,
                                          "a number from 1e-6 to 1000000");
  config.max_length = reader.integer("max_length", 0, int64_t(1) << 40);
  config.max_new_tokens = reader.integer("max_new_tokens", 0, int64_t(1) << 40);
  if (!reader.ok())
    return reader.error();
  return config;
}

Status checkTokenizer(const TokenizerFiles &files, const ModelConfig &model,
                      const std::string &directory) {
  const int64_t numRanks = static_cast<int64_t>(files.ranks.tokens.size());
  auto fail = [&](const char *file, const std::string &message) {
    return Status::error(printable(joinPath(directory, file)) + ": " + message);
  };
  const std::string vocab =
      "vocab_size " + std::to_string(model.vocab_size) + " of config.json";
  if (numRanks > model.vocab_size)
    return fail(ranksName, "has " + std::to_string(numRanks) +
                               " tokens, more than the " + vocab);
  std::unordered_map<int64_t, const SpecialToken *> byId;
  for (const SpecialToken &token : files.config.added_tokens) {
    if (token.id < numRanks || token.id >= model.vocab_size)
      return fail(configName,
                  "added_tokens_decoder." + std::to_string(token.id) + " (" +
                      quote(token.content) + "): wanted an id from " +
                      std::to_string(numRanks) +
                      ", the number of ranks, to below the " + vocab);
    byId[token.id] = &token;
  }
  auto agrees = [&](const char *key, const std::optional<std::string> &content,
                    std::optional<int64_t> id) {
    if (!content)
      return Status::success();
    const SpecialToken *token = files.config.find(*content);
    if (!token)
      return fail(configName, std::string(key) + ": got " + quote(*content) +
                                  ", wanted a content of "
                                  "added_tokens_decoder");
    if (id && token->id != *id)
      return fail(configName, std::string(key) + ": " + quote(*content) +
                                  " has id " + std::to_string(token->id) +
                                  ", but config.json says " + key + "_id " +
                                  std::to_string(*id));
    return Status::success();
  };
  if (Status status =
          agrees("bos_token", files.config.bos_token, model.bos_token_id);
      !status.ok())
    return status;
  if (Status status =
          agrees("pad_token", files.config.pad_token, model.pad_token_id);
      !status.ok())
    return status;
  // The tokenizer's [EOS] is not what ends a message in this family, so only
  // its existence is checked, and that the model's end ids have names.
  if (Status status = agrees("eos_token", files.config.eos_token, std::nullopt);
      !status.ok())
    return status;
  for (int64_t id : model.eos_token_id)
    if (!byId.count(id))
      return fail(configName, "added_tokens_decoder: has no token " +
                                  std::to_string(id) +
                                  ", the eos_token_id of config.json");
  const GenerationConfig &generation = files.generation;
  std::vector<std::pair<const char *, int64_t>> ids;
  for (int64_t id : generation.eos_token_id)
    ids.push_back({"eos_token_id", id});
  if (generation.bos_token_id)
    ids.push_back({"bos_token_id", *generation.bos_token_id});
  if (generation.pad_token_id)
    ids.push_back({"pad_token_id", *generation.pad_token_id});
  for (auto [key, id] : ids)
    if (id >= model.vocab_size)
      return fail(generationName, std::string(key) + ": got " +
                                      std::to_string(id) +
                                      ", wanted an id below the " + vocab);
  return Status::success();
}

Expected<TokenizerFiles> readTokenizerFiles(const std::string &directory,
                                            const ModelConfig &model) {
  TokenizerFiles files;
  const std::string ranksPath = joinPath(directory, ranksName);
  Expected<std::string> text = readFile(ranksPath, maxRanksFile);
  if (!text)
    return text.status();
  Expected<TokenRanks> ranks = parseTokenRanks(*text, ranksPath);
  if (!ranks)
    return ranks.status();
  files.ranks = std::move(*ranks);

  const std::string configPath = joinPath(directory, configName);
  text = readFile(configPath, maxConfigFile);
  if (!text)
    return text.status();
  Expected<TokenizerConfig> config = parseTokenizerConfig(*text, configPath);
  if (!config)
    return config.status();
  files.config = std::move(*config);

  const std::string generationPath = joinPath(directory, generationName);
  if (pathExists(generationPath)) {
    text = readFile(generationPath, maxConfigFile);
    if (!text)
      return text.status();
    Expected<GenerationConfig> generation =
        parseGenerationConfig(*text, generationPath);
    if (!generation)
      return generation.status();
    files.generation = std::move(*generation);
  }
  if (Status status = checkTokenizer(files, model, directory); !status.ok())
    return status;
  return files;
}

} // namespace k3::frontend
