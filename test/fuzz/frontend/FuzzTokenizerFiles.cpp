//===- FuzzTokenizerFiles.cpp - the three tokenizer files -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FuzzSupport.h"
#include "frontend/TokenizerFiles.h"

using namespace k3::frontend;

/// The first byte chooses the file: 'r'anks, 't'okenizer or 'g'eneration
/// config.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string_view text = k3::fuzz::text(data + 1, size - 1);
  TokenizerFiles files;
  if (data[0] == 'r') {
    Expected<TokenRanks> ranks = parseTokenRanks(text, "file");
    if (!ranks) {
      k3::fuzz::checkMessage(ranks.status(), "file");
      return 0;
    }
    K3_FUZZ_CHECK(ranks->tokens.size() >= 256);
    for (const std::string &token : ranks->tokens)
      K3_FUZZ_CHECK(!token.empty());
    files.ranks = std::move(*ranks);
  } else if (data[0] == 't') {
    Expected<TokenizerConfig> config = parseTokenizerConfig(text, "file");
    if (!config) {
      k3::fuzz::checkMessage(config.status(), "file");
      return 0;
    }
    files.config = std::move(*config);
  } else {
    Expected<GenerationConfig> config = parseGenerationConfig(text, "file");
    if (!config) {
      k3::fuzz::checkMessage(config.status(), "file");
      return 0;
    }
    files.generation = std::move(*config);
  }
  ModelConfig model;
  model.vocab_size = 300;
  model.eos_token_id = {260};
  if (Status status = checkTokenizer(files, model, "dir"); !status.ok())
    k3::fuzz::checkMessage(status, "dir");
  return 0;
}
