//===- FuzzTokenizerBlob.cpp - hostile tokenizer blocks -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/fuzz/text/FuzzTokenizer.h"

#include <algorithm>
#include <cstring>

using namespace k3rt;

// First byte 0: the rest is the block. Otherwise the rest edits a valid block:
// groups of two bytes of position and four of new content, so that the fuzzer
// gets past the magic and the sizes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::vector<uint8_t> block;
  if (data[0] == 0) {
    block.assign(data + 1, data + size);
  } else {
    block = fuzz::smallBlob();
    for (size_t at = 1; at + 6 <= size; at += 6) {
      size_t position = (data[at] | data[at + 1] << 8) % (block.size() - 4);
      std::memcpy(block.data() + position, data + at + 2, 4);
    }
    // Cut or extend by up to 8 bytes.
    block.resize(block.size() + data[0] % 17 - 8);
    if (data[0] % 17 == 8 && size % 6 == 2)
      block.resize(size);
  }
  std::string error;
  auto tokenizer = Tokenizer::open(block.data(), block.size(), error);
  if (!tokenizer) {
    fuzz::require(!error.empty() && error.find('\n') == std::string::npos,
                  "a refusal has one line");
    return 0;
  }
  std::vector<int32_t> ids;
  std::string text = "the message <|open|> aaaa \xE6\xB1\x89", back;
  fuzz::require(tokenizer->encode(text, AllowSpecial::yes, ids, error),
                "an accepted tokenizer encodes");
  fuzz::require(tokenizer->decode(ids.data(), ids.size(), SpecialText::show,
                                  back, error) &&
                    back == text,
                "and decodes to the same text");
  return 0;
}
