//===- FuzzEncode.cpp - hostile text ------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/StopMatcher.h"
#include "runtime/src/text/StreamDecoder.h"
#include "test/fuzz/text/FuzzTokenizer.h"

using namespace k3rt;

// First byte: whether specials count, and where a stop string is taken from.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const Tokenizer &tokenizer = fuzz::smallTokenizer();
  std::string_view text(reinterpret_cast<const char *>(data + 1), size - 1);
  AllowSpecial allow = data[0] & 1 ? AllowSpecial::yes : AllowSpecial::no;
  std::vector<int32_t> ids;
  std::string error, bytes;
  bool valid = findInvalidUtf8(text) == text.size();
  bool encoded = tokenizer.encode(text, allow, ids, error);
  fuzz::require(encoded == valid, "exactly valid UTF-8 is encoded");
  if (!encoded) {
    // The bytes as ids: what a model could answer.
    for (char c : text)
      ids.push_back(static_cast<unsigned char>(c));
  }
  for (int32_t id : ids)
    fuzz::require(allow == AllowSpecial::yes ||
                      static_cast<uint32_t>(id) < tokenizer.baseCount(),
                  "special ids only where allowed");
  fuzz::require(tokenizer.decode(ids.data(), ids.size(), SpecialText::show,
                                 bytes, error) &&
                    bytes == text,
                "decoding gives the text back");

  std::string whole, streamed;
  fuzz::require(tokenizer.decodeText(ids.data(), ids.size(), SpecialText::show,
                                     whole, error),
                "known ids decode");
  StreamDecoder decoder(tokenizer, SpecialText::show);
  for (int32_t id : ids)
    fuzz::require(decoder.push(id, streamed, error), "known ids decode");
  decoder.finish(streamed);
  fuzz::require(streamed == whole, "streaming equals decoding at once");
  fuzz::require(findInvalidUtf8(whole) == whole.size(),
                "decoded text is UTF-8");

  size_t from = data[0] >> 1;
  if (from < whole.size()) {
    std::string stopString = whole.substr(from, 3), out;
    StopMatcher stop;
    fuzz::require(stop.init({{}, {stopString}}, error), "a stop string");
    for (char c : whole)
      stop.push({&c, 1}, out);
    stop.finish(out);
    fuzz::require(out == whole.substr(0, whole.find(stopString)),
                  "text ends before the stop string");
  }
  return 0;
}
