//===- Status.h - results of the file parsers -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// No parser throws or aborts on input: each returns a Status or an Expected
// whose message is one line that names the file, the key or place, what was
// found and what was wanted.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_STATUS_H
#define K3_FRONTEND_STATUS_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace k3::frontend {

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status success() { return Status(); }
  static Status error(std::string message) {
    assert(!message.empty() && "an error needs a message");
    Status status;
    status.text = std::move(message);
    return status;
  }

  bool ok() const { return text.empty(); }
  /// One line, without a trailing newline; empty when ok().
  const std::string &message() const { return text; }

private:
  std::string text;
};

/// A value or an error message. Dereference only after checking ok().
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : held(std::move(value)) {}
  Expected(Status error) : failure(std::move(error)) {
    assert(!failure.ok() && "success carries no value");
  }

  bool ok() const { return held.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return failure; }
  const std::string &message() const { return failure.message(); }

  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace k3::frontend

#endif // K3_FRONTEND_STATUS_H
