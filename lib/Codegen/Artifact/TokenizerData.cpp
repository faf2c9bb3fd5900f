//===- TokenizerData.cpp - tokenizer files as the artifact's tokenizer -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "lib/Codegen/Artifact/TokenizerData.h"
#include "runtime/src/text/TokenizerBlob.h"

using namespace mlir::k3;
using namespace ::k3::frontend;

Expected<std::vector<uint8_t>> mlir::k3::serializeTokenizerFiles(const TokenizerFiles &files,
                                                                 const ModelConfig &config) {
  k3rt::TokenizerData data;
  data.baseTokens = files.ranks.tokens;
  for (const ::k3::frontend::SpecialToken &token : files.config.added_tokens)
    data.specialTokens.push_back({static_cast<int32_t>(token.id), token.content});
  data.vocabSize = static_cast<uint32_t>(config.vocab_size);
  std::vector<uint8_t> blob;
  std::string error;
  if (!k3rt::serializeTokenizer(data, blob, error))
    return Status::error("tokenizer: " + error);
  return blob;
}
