//===- FuzzTokenizer.cpp - a small tokenizer to fuzz with ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/fuzz/text/FuzzTokenizer.h"

#include <cstdio>
#include <cstdlib>

namespace k3rt::fuzz {

void require(bool condition, const char *what) {
  if (condition)
    return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

const std::vector<uint8_t> &smallBlob() {
  static const std::vector<uint8_t> blob = [] {
    TokenizerData data;
    for (int byte = 0; byte < 256; ++byte)
      data.baseTokens.push_back(std::string(1, static_cast<char>(byte)));
    for (const char *token :
         {"th", "he", "the", " the", "aa", "aaaa", "\xE6\xB1", "\xE6\xB1\x89",
          "\n\n", "  ", "mess", "age", "message", "role", "us", "er", "user"})
      data.baseTokens.push_back(token);
    int32_t id = static_cast<int32_t>(data.baseTokens.size());
    data.vocabSize = static_cast<uint32_t>(id) + 32;
    for (const char *name :
         {"[BOS]", "[EOS]", "[PAD]", "<|end_of_msg|>", "<|open|>", "<|close|>",
          "<|sep|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>",
          "<|im_middle|>", "<|im_end|>"})
      data.specialTokens.push_back({id++, name});
    std::vector<uint8_t> bytes;
    std::string error;
    require(serializeTokenizer(data, bytes, error), error.c_str());
    return bytes;
  }();
  return blob;
}

const Tokenizer &smallTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    std::string error;
    auto opened =
        Tokenizer::open(smallBlob().data(), smallBlob().size(), error);
    require(opened != nullptr, error.c_str());
    return opened;
  }();
  return *tokenizer;
}

} // namespace k3rt::fuzz
