//===- Json.h - JSON events and values with places in the text ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Two ways to read JSON: events for files of many megabytes (safetensors
// headers, checkpoint indexes) and a tree for small ones (config.json). Both
// bound the nesting depth and know the line and column of what they read.
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_JSON_H
#define K3_FRONTEND_JSON_H

#include "frontend/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace k3::frontend {

/// "file:line:column: " of byte `offset` in `text`; both count from 1.
std::string placePrefix(std::string_view text, size_t offset,
                        const std::string &fileName);

/// Receives the events of one document. An event that returns false stops the
/// parse; it must have called fail() before.
class JsonHandler {
public:
  virtual ~JsonHandler() = default;
  virtual bool onStartObject() = 0;
  virtual bool onEndObject() = 0;
  virtual bool onStartArray() = 0;
  virtual bool onEndArray() = 0;
  virtual bool onKey(std::string &key) = 0;
  virtual bool onString(std::string &value) = 0;
  virtual bool onInteger(int64_t value) = 0;
  /// A whole number above the largest int64.
  virtual bool onBigInteger(uint64_t value) = 0;
  virtual bool onReal(double value) = 0;
  virtual bool onBool(bool value) = 0;
  virtual bool onNull() = 0;

  /// Byte offset just past the token of the current event.
  size_t offset() const { return place; }

protected:
  /// Remembers the message, which gets file, line and column put before it.
  bool fail(std::string message) {
    failure = std::move(message);
    return false;
  }

private:
  friend class JsonDriver;
  size_t place = 0;
  std::string failure;
};

constexpr unsigned maxJsonDepth = 64;

/// Runs `handler` over the document in `text`. Errors: malformed JSON or UTF-8,
/// nesting deeper than maxJsonDepth, a number no double holds, text after the
/// end, and what the handler refuses.
Status parseJson(std::string_view text, const std::string &fileName,
                 JsonHandler &handler);

/// One value of a small document.
struct JsonValue {
  enum class Kind : uint8_t {
    Null,
    Bool,
    Integer,    ///< in `integer`
    BigInteger, ///< above the largest int64; rounded in `real`
    Real,
    String,
    Array,
    Object,
  };
  Kind kind = Kind::Null;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<JsonValue> elements; ///< Array
  std::vector<std::pair<std::string, JsonValue>>
      members;       ///< Object, no key twice
  size_t offset = 0; ///< of the token's end, for placePrefix

  bool isNull() const { return kind == Kind::Null; }
  bool isObject() const { return kind == Kind::Object; }
  /// The member of that key, or nullptr.
  const JsonValue *find(std::string_view key) const;
  /// The value for a message: "5", "\"text\"", "null", "a list", "an object".
  std::string describe() const;
};

/// The whole document as a tree. A key that appears twice in one object is an
/// error. Meant for documents of a few megabytes.
Expected<JsonValue> parseJsonTree(std::string_view text,
                                  const std::string &fileName);

} // namespace k3::frontend

#endif // K3_FRONTEND_JSON_H
