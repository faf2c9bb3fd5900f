//===- Json.cpp - JSON events and values with places in the text ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Json.h"
#include "frontend/Text.h"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace k3::frontend {

std::string placePrefix(std::string_view text, size_t offset,
                        const std::string &fileName) {
  size_t line = 1, lineStart = 0;
  if (offset > text.size())
    offset = text.size();
  for (size_t i = 0; i < offset; ++i)
    if (text[i] == '\n') {
      ++line;
      lineStart = i + 1;
    }
  size_t column = offset > lineStart ? offset - lineStart : 1;
  return printable(fileName) + ':' + std::to_string(line) + ':' +
         std::to_string(column) + ": ";
}

namespace {
/// Walks the text and tells how far the lexer has read: the parser's events
/// carry no position.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *cursor, const char **seen)
      : cursor(cursor), seen(seen) {}
  reference operator*() const { return *cursor; }
  CountingIterator &operator++() {
    *seen = ++cursor;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator &other) const {
    return cursor == other.cursor;
  }
  bool operator!=(const CountingIterator &other) const {
    return cursor != other.cursor;
  }

private:
  const char *cursor;
  const char **seen;
};
} // namespace

/// Adapts JsonHandler to the event interface of nlohmann::json.
class JsonDriver final : public nlohmann::json_sax<nlohmann::json> {
public:
  JsonDriver(std::string_view text, const std::string &fileName,
             JsonHandler &handler)
      : text(text), fileName(fileName), handler(handler), seen(text.data()) {}

  Status run() {
    // The lexer takes a NUL for the end and would not look at what follows.
    if (size_t nul = text.find('\0'); nul != std::string_view::npos)
      return Status::error(placePrefix(text, nul + 1, fileName) +
                           "malformed JSON: a NUL byte");
    bool parsed = nlohmann::json::sax_parse(
        CountingIterator(text.data(), &seen),
        CountingIterator(text.data() + text.size(), &seen), this);
    if (parsed)
      return Status::success();
    if (syntaxError.empty())
      return Status::error(placePrefix(text, handler.place, fileName) +
                           handler.failure);
    return Status::error(
        placePrefix(text, static_cast<size_t>(seen - text.data()), fileName) +
        "malformed JSON: " + syntaxError);
  }

  bool null() override { return mark() && handler.onNull(); }
  bool boolean(bool value) override { return mark() && handler.onBool(value); }
  bool number_integer(number_integer_t value) override {
    return markNumber() && handler.onInteger(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    markNumber();
    if (value <= static_cast<uint64_t>(INT64_MAX))
      return handler.onInteger(static_cast<int64_t>(value));
    return handler.onBigInteger(value);
  }
  bool number_float(number_float_t value, const string_t &) override {
    return markNumber() && handler.onReal(value);
  }
  bool string(string_t &value) override {
    return mark() && handler.onString(value);
  }
  bool binary(binary_t &) override { return false; }
  bool start_object(std::size_t) override {
    return enter() && handler.onStartObject();
  }
  bool key(string_t &value) override { return mark() && handler.onKey(value); }
  bool end_object() override {
    --depth;
    return mark() && handler.onEndObject();
  }
  bool start_array(std::size_t) override {
    return enter() && handler.onStartArray();
  }
  bool end_array() override {
    --depth;
    return mark() && handler.onEndArray();
  }
  bool parse_error(std::size_t, const std::string &,
                   const nlohmann::detail::exception &error) override {
    // Drop the library's own tag and place: ours is put before the message.
    std::string_view what = error.what();
    for (std::string_view lead : {"] ", "column "})
      if (size_t at = what.find(lead); at != std::string_view::npos)
        what.remove_prefix(at + lead.size());
    if (size_t at = what.find(": "); at != std::string_view::npos && at < 12)
      what.remove_prefix(at + 2);
    syntaxError = printable(what);
    return false;
  }

private:
  bool mark() {
    handler.place = static_cast<size_t>(seen - text.data());
    return true;
  }
  /// The lexer reads one character past a number, which may be a line break.
  bool markNumber() {
    mark();
    if (handler.place > 0) {
      char last = text[handler.place - 1];
      if (last < '0' || last > '9')
        --handler.place;
    }
    return true;
  }
  bool enter() {
    mark();
    if (++depth > maxJsonDepth)
      return handler.fail("nested deeper than " + std::to_string(maxJsonDepth) +
                          " levels");
    return true;
  }

  std::string_view text;
  const std::string &fileName;
  JsonHandler &handler;
  const char *seen;
  unsigned depth = 0;
  std::string syntaxError;
};

Status parseJson(std::string_view text, const std::string &fileName,
                 JsonHandler &handler) {
  return JsonDriver(text, fileName, handler).run();
}

const JsonValue *JsonValue::find(std::string_view key) const {
  for (const auto &member : members)
    if (member.first == key)
      return &member.second;
  return nullptr;
}

std::string JsonValue::describe() const {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return boolean ? "true" : "false";
  case Kind::Integer:
    return std::to_string(integer);
  case Kind::BigInteger:
  case Kind::Real: {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", real);
    return text;
  }
  case Kind::String:
    return quote(string);
  case Kind::Array:
    return "a list";
  case Kind::Object:
    return "an object";
  }
  return "?";
}

namespace {
class TreeBuilder final : public JsonHandler {
public:
  JsonValue root;

  bool onStartObject() override { return open(JsonValue::Kind::Object); }
  bool onEndObject() override { return close(); }
  bool onStartArray() override { return open(JsonValue::Kind::Array); }
  bool onEndArray() override { return close(); }
  bool onKey(std::string &key) override {
    Level &level = stack.back();
    if (!level.keys.insert(key).second)
      return fail("key " + quote(key) + " appears twice");
    level.pendingKey = std::move(key);
    return true;
  }
  bool onString(std::string &value) override {
    JsonValue &leaf = add(JsonValue::Kind::String);
    leaf.string = std::move(value);
    return true;
  }
  bool onInteger(int64_t value) override {
    JsonValue &leaf = add(JsonValue::Kind::Integer);
    leaf.integer = value;
    leaf.real = static_cast<double>(value);
    return true;
  }
  bool onBigInteger(uint64_t value) override {
    add(JsonValue::Kind::BigInteger).real = static_cast<double>(value);
    return true;
  }
  bool onReal(double value) override {
    add(JsonValue::Kind::Real).real = value;
    return true;
  }
  bool onBool(bool value) override {
    add(JsonValue::Kind::Bool).boolean = value;
    return true;
  }
  bool onNull() override {
    add(JsonValue::Kind::Null);
    return true;
  }

private:
  /// A container still open. The pointer stays valid: its parent grows only
  /// after it is closed.
  struct Level {
    JsonValue *value;
    std::string pendingKey;
    std::unordered_set<std::string> keys;
  };

  JsonValue &add(JsonValue::Kind kind) {
    JsonValue *value = &root;
    if (!stack.empty()) {
      Level &level = stack.back();
      if (level.value->kind == JsonValue::Kind::Object) {
        level.value->members.emplace_back(std::move(level.pendingKey),
                                          JsonValue());
        value = &level.value->members.back().second;
      } else {
        value = &level.value->elements.emplace_back();
      }
    }
    value->kind = kind;
    value->offset = offset();
    return *value;
  }
  bool open(JsonValue::Kind kind) {
    stack.push_back(Level{&add(kind), {}, {}});
    return true;
  }
  bool close() {
    stack.pop_back();
    return true;
  }

  std::vector<Level> stack;
};
} // namespace

Expected<JsonValue> parseJsonTree(std::string_view text,
                                  const std::string &fileName) {
  TreeBuilder builder;
  if (Status status = parseJson(text, fileName, builder); !status.ok())
    return status;
  return std::move(builder.root);
}

} // namespace k3::frontend
