//===- FuzzChat.cpp - hostile conversations -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Chat.h"
#include "runtime/src/text/Utf8.h"
#include "test/fuzz/text/FuzzTokenizer.h"

#include <algorithm>

using namespace k3rt;

// First byte: options. The rest is the JSON text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const Tokenizer &tokenizer = fuzz::smallTokenizer();
  std::string_view json(reinterpret_cast<const char *>(data + 1), size - 1);
  ChatOptions options;
  options.thinking = data[0] & 1;
  options.generationPrompt = data[0] & 2;
  std::string error;
  for (ChatFormat format : {ChatFormat::kimiK3, ChatFormat::kimiK2}) {
    std::vector<ChatSegment> segments;
    if (!renderChat(format, json, options, segments, error)) {
      fuzz::require(!error.empty() && error.find('\n') == std::string::npos,
                    "a refusal has one line");
      continue;
    }
    for (const ChatSegment &segment : segments)
      fuzz::require(findInvalidUtf8(segment.text) == segment.text.size(),
                    "rendered text is UTF-8");
  }
  std::vector<ChatSegment> segments;
  std::vector<int32_t> ids;
  if (encodeChat(tokenizer, json, options, ids, error)) {
    fuzz::require(renderChat(ChatFormat::kimiK3, json, options, segments, error),
                  "what can be encoded can be rendered");
    auto controls = std::count_if(
        segments.begin(), segments.end(),
        [](const ChatSegment &segment) { return segment.control; });
    auto specials = std::count_if(ids.begin(), ids.end(), [&](int32_t id) {
      return static_cast<uint32_t>(id) >= tokenizer.baseCount();
    });
    fuzz::require(controls == specials,
                  "special ids come from the format alone");
  }
  return 0;
}
