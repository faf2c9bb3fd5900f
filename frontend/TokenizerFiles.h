//===- TokenizerFiles.h - tokenizer and generation settings of a model ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// tiktoken.model, tokenizer_config.json and generation_config.json as plain
// data. Encoding and decoding are the runtime's business.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_TOKENIZERFILES_H
#define K3_FRONTEND_TOKENIZERFILES_H

#include "frontend/ModelConfig.h"

namespace k3::frontend {

/// Tokens of a tiktoken.model: line "base64(bytes) rank" each.
struct TokenRanks {
  /// The bytes of each token; the position is its rank and its id. Ranks run
  /// from 0 without gap, no token appears twice, and each of the 256 single
  /// bytes is a token, so that any text can be encoded.
  std::vector<std::string> tokens;
};

struct SpecialToken {
  int64_t id = 0;
  std::string content; ///< UTF-8, as it is written in text
  bool special = true; ///< false: an added word rather than a control token
};

/// The parts of tokenizer_config.json that matter.
struct TokenizerConfig {
  std::vector<SpecialToken> added_tokens; ///< added_tokens_decoder, by id
  /// Contents, not ids; absent where null.
  std::optional<std::string> bos_token, eos_token, pad_token, unk_token;

  /// The added token of that content, or nullptr.
  const SpecialToken *find(std::string_view content) const;
};

/// generation_config.json; what is not given stays empty.
struct GenerationConfig {
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_id; ///< one or several ids
  std::optional<bool> do_sample;
  std::optional<double> temperature;        ///< 0 or above
  std::optional<double> top_p, min_p;       ///< 0 to 1
  std::optional<int64_t> top_k;             ///< 0: no limit
  std::optional<double> repetition_penalty; ///< above 0
  std::optional<int64_t> max_length, max_new_tokens;
};

struct TokenizerFiles {
  TokenRanks ranks;
  TokenizerConfig config;
  GenerationConfig generation;
};

Expected<TokenRanks> parseTokenRanks(std::string_view text,
                                     const std::string &fileName);
Expected<TokenizerConfig> parseTokenizerConfig(std::string_view json,
                                               const std::string &fileName);
Expected<GenerationConfig> parseGenerationConfig(std::string_view json,
                                                 const std::string &fileName);

/// Reads tiktoken.model and tokenizer_config.json of a model directory and, if
/// it is there, generation_config.json, and checks them against the model: ids
/// inside the vocabulary, added tokens after the ranks, and the config's bos,
/// eos and pad ids being the added tokens the tokenizer says they are.
Expected<TokenizerFiles> readTokenizerFiles(const std::string &directory,
                                            const ModelConfig &model);

/// The cross-checks alone.
Status checkTokenizer(const TokenizerFiles &files, const ModelConfig &model,
                      const std::string &directory);

} // namespace k3::frontend

#endif // K3_FRONTEND_TOKENIZERFILES_H
