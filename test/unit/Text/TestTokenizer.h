//===- TestTokenizer.h - tokenizers for the tests -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_UNIT_TEXT_TESTTOKENIZER_H
#define K3_TEST_UNIT_TEXT_TESTTOKENIZER_H

#include "runtime/src/text/Tokenizer.h"

#include <nlohmann/json.hpp>

namespace k3rt::test {

/// Reads a file of the source tree; fails the test when it is not there.
std::string readFile(const std::string &path);
nlohmann::json readJson(const std::string &path);

/// tiktoken.model and tokenizer_config.json of models/<name> as plain data.
TokenizerData modelTokenizerData(const std::string &name);

/// A tokenizer together with the block it lies in.
struct OwnedTokenizer {
  std::vector<uint8_t> blob;
  std::unique_ptr<Tokenizer> tokenizer;
};
OwnedTokenizer makeTokenizer(const TokenizerData &data);

/// The tokenizer of models/<name>, made once.
const Tokenizer &modelTokenizer(const std::string &name);

/// The 256 single bytes and then `more`, with 16 special ids.
TokenizerData byteTokenizerData(const std::vector<std::string> &more = {});

/// Encodes or fails the test.
std::vector<int32_t> encode(const Tokenizer &tokenizer, std::string_view text,
                            AllowSpecial allow = AllowSpecial::no);
std::string decode(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
                   SpecialText special = SpecialText::show);

} // namespace k3rt::test

#endif // K3_TEST_UNIT_TEXT_TESTTOKENIZER_H
