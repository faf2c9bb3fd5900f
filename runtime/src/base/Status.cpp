//===- Status.cpp - results of runtime functions -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/Status.h"

#include <cstdio>

namespace k3rt {

static std::string formatList(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(length > 0 ? size_t(length) : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

Status makeErrorList(k3rt_status code, const char *format, va_list arguments) {
  return Status(code, formatList(format, arguments));
}

Status makeError(k3rt_status code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status = makeErrorList(code, format, arguments);
  va_end(arguments);
  return status;
}

std::string formatText(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatList(format, arguments);
  va_end(arguments);
  return text;
}

std::string quoted(const char *text, size_t size) {
  constexpr size_t longest = 80;
  std::string out = "'";
  for (size_t i = 0; i < size && i < longest; ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f)
      out += char(c);
    else
      out += formatText("\\x%02x", c);
  }
  return out + (size > longest ? "...'" : "'");
}

std::string quoted(const std::string &text) {
  return quoted(text.data(), text.size());
}

} // namespace k3rt
