//===- Status.h - results of runtime functions ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_STATUS_H
#define K3RT_BASE_STATUS_H

#include "k3rt/k3rt.h"

#include <cstdarg>
#include <string>
#include <utility>

namespace k3rt {

/// Success, or a code of the C API with one line for the user (no newline).
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(k3rt_status code, std::string message)
      : errorCode(code), text(std::move(message)) {}

  bool ok() const { return errorCode == K3RT_OK; }
  k3rt_status code() const { return errorCode; }
  const std::string &message() const { return text; }

private:
  k3rt_status errorCode = K3RT_OK;
  std::string text;
};

/// printf-style. Text from files must be passed through quoted() first.
Status makeError(k3rt_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
Status makeErrorList(k3rt_status code, const char *format, va_list arguments);
std::string formatText(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/// `text` in single quotes, at most 80 bytes of it, with control and non-ASCII
/// bytes as \xNN: fit for one line on a terminal whatever the file held.
std::string quoted(const char *text, size_t size);
std::string quoted(const std::string &text);

} // namespace k3rt

#define K3RT_RETURN_IF_ERROR(expression)                                       \
  do {                                                                         \
    if (::k3rt::Status k3rtStatus = (expression); !k3rtStatus.ok())            \
      return k3rtStatus;                                                       \
  } while (false)

#endif // K3RT_BASE_STATUS_H
