//===- Utf8.cpp - UTF-8 validation and repair ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Utf8.h"

namespace k3rt {

namespace {
/// What a first byte announces: the length of the character (0: no first byte
/// of anything) and the bounds of its second byte.
struct Lead {
  size_t length;
  unsigned char low, high;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80)
    return {1, 0, 0};
  if (byte < 0xC2)
    return {0, 0, 0};
  if (byte < 0xE0)
    return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5)
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

constexpr std::string_view replacement = "\xEF\xBF\xBD";
} // namespace

size_t findInvalidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    Lead lead = classify(static_cast<unsigned char>(text[at]));
    if (lead.length == 0 || lead.length > text.size() - at)
      return at;
    for (size_t i = 1; i < lead.length; ++i) {
      unsigned char byte = static_cast<unsigned char>(text[at + i]);
      unsigned char low = i == 1 ? lead.low : 0x80;
      unsigned char high = i == 1 ? lead.high : 0xBF;
      if (byte < low || byte > high)
        return at;
    }
    at += lead.length;
  }
  return at;
}

void appendUtf8(std::string &out, uint32_t codePoint) {
  auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (codePoint < 0x80) {
    put(codePoint);
  } else if (codePoint < 0x800) {
    put(0xC0 | codePoint >> 6);
    put(0x80 | (codePoint & 0x3F));
  } else if (codePoint < 0x10000) {
    put(0xE0 | codePoint >> 12);
    put(0x80 | (codePoint >> 6 & 0x3F));
    put(0x80 | (codePoint & 0x3F));
  } else {
    put(0xF0 | codePoint >> 18);
    put(0x80 | (codePoint >> 12 & 0x3F));
    put(0x80 | (codePoint >> 6 & 0x3F));
    put(0x80 | (codePoint & 0x3F));
  }
}

void Utf8Repairer::pushByte(unsigned char byte, std::string &out) {
  if (held != 0) {
    if (byte >= low && byte <= high) {
      buffer[held++] = byte;
      low = 0x80;
      high = 0xBF;
      if (held == need) {
        out.append(reinterpret_cast<const char *>(buffer), held);
        held = 0;
      }
      return;
    }
    // What waits is an ill-formed subpart; this byte starts afresh.
    out += replacement;
    held = 0;
  }
  Lead lead = classify(byte);
  if (lead.length == 1) {
    out += static_cast<char>(byte);
  } else if (lead.length == 0) {
    out += replacement;
  } else {
    buffer[held++] = byte;
    need = lead.length;
    low = lead.low;
    high = lead.high;
  }
}

void Utf8Repairer::push(std::string_view bytes, std::string &out) {
  for (char byte : bytes)
    pushByte(static_cast<unsigned char>(byte), out);
}

void Utf8Repairer::finish(std::string &out) {
  if (held != 0)
    out += replacement;
  held = 0;
}

} // namespace k3rt
