//===- Utf8.h - UTF-8 validation and repair -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_UTF8_H
#define K3RT_TEXT_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace k3rt {

/// Byte offset of the first byte that is not part of well-formed UTF-8
/// (Unicode table 3-7: no overlong forms, no surrogates, at most U+10FFFF), or
/// `text.size()` when all of it is well formed.
size_t findInvalidUtf8(std::string_view text);

/// Appends the UTF-8 form of `codePoint` (a Unicode scalar value) to `out`.
void appendUtf8(std::string &out, uint32_t codePoint);

/// Turns a byte stream, cut anywhere, into well-formed UTF-8.
///
/// Policy: a character is given out once all its bytes are there. Each maximal
/// ill-formed subpart (Unicode 3.9, the rule of Python's errors="replace" and
/// of the WHATWG decoder) becomes one U+FFFD. A character is at most 4 bytes
/// long, so at most 3 bytes wait; finish() turns those into one U+FFFD. The
/// result does not depend on where the stream was cut.
class Utf8Repairer {
public:
  /// Takes `bytes` and appends what is now certain to `out`.
  void push(std::string_view bytes, std::string &out);
  /// Ends the stream: an unfinished character becomes U+FFFD.
  void finish(std::string &out);
  /// Bytes held back, 0 to 3.
  size_t pending() const { return held; }

private:
  void pushByte(unsigned char byte, std::string &out);

  unsigned char buffer[4] = {};
  size_t held = 0;
  size_t need = 0;
  // Bounds of the next continuation byte.
  unsigned char low = 0x80, high = 0xBF;
};

} // namespace k3rt

#endif // K3RT_TEXT_UTF8_H
