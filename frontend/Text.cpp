//===- Text.cpp - pieces of one-line messages -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Text.h"

namespace k3::frontend {

/// Bytes of the valid UTF-8 sequence at the start of `text`, or 0. Overlong
/// forms and surrogates need no rejection here: this only guards a terminal.
static size_t utf8SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) >= 0xf0 && byte(0) < 0xf8   ? 4
                  : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                  : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                                                      : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
  // C1 control characters (U+0080..U+009F) steer terminals like C0 ones.
  if (byte(0) == 0xc2 && byte(1) < 0xa0)
    return 0;
  return length;
}

std::string printable(std::string_view text, size_t maxBytes) {
  static const char hex[] = "0123456789abcdef";
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    if (out.size() >= maxBytes) {
      out += "...";
      break;
    }
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f) {
      out += text[i++];
      continue;
    }
    if (size_t length = c >= 0x80 ? utf8SequenceLength(text.substr(i)) : 0) {
      out.append(text.substr(i, length));
      i += length;
      continue;
    }
    out += "\\x";
    out += hex[c >> 4];
    out += hex[c & 15];
    ++i;
  }
  return out;
}

std::string quote(std::string_view text, size_t maxBytes) {
  return '"' + printable(text, maxBytes) + '"';
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i)
      out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

std::string counted(uint64_t count, const char *noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

} // namespace k3::frontend
