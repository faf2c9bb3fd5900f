//===- PythonJson.cpp - JSON written as Python writes it ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/PythonJson.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace k3rt {

namespace {
/// Levels of brackets in `text`, read without judging anything else.
int bracketDepth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

/// Reports the first error instead of throwing it, and bounds the work: looking
/// up a key of an object that keeps its order takes time in its size.
class ErrorReader : public nlohmann::detail::json_sax_dom_parser<Json> {
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;

public:
  explicit ErrorReader(Json &value) : Base(value, false) {}
  bool start_object(std::size_t size) {
    keys.push_back(0);
    return Base::start_object(size);
  }
  bool key(Json::string_t &name) {
    if (++keys.back() > maxJsonKeys) {
      tooManyKeys = true;
      return false;
    }
    return Base::key(name);
  }
  bool end_object() {
    keys.pop_back();
    return Base::end_object();
  }
  template <class Exception>
  bool parse_error(std::size_t position, const std::string &,
                   const Exception &failure) {
    at = position;
    reason = failure.what();
    return false;
  }
  std::size_t at = 0;
  std::string reason;
  bool tooManyKeys = false;

private:
  std::vector<int> keys;
};

void writeString(std::string_view text, std::string &out) {
  static const char digits[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        out += "\\u00";
        out += digits[c >> 4];
        out += digits[c & 15];
      } else {
        out += c;
      }
    }
  }
  out += '"';
}

/// Python's repr of a float: the shortest digits that read back the same, an
/// exponent only below 1e-4 and from 1e16 on.
void writeFloat(double value, std::string &out) {
  char buffer[64];
  double size = std::fabs(value);
  bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value,
                    exponent ? std::chars_format::scientific
                             : std::chars_format::fixed)
          .ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  out += text;
  if (!exponent && text.find('.') == std::string_view::npos)
    out += ".0";
}

void write(const Json &value, JsonStyle style, std::string &out) {
  const char *comma = style == JsonStyle::spaced ? ", " : ",";
  const char *colon = style == JsonStyle::spaced ? ": " : ":";
  switch (value.type()) {
  case Json::value_t::boolean:
    out += *value.get_ptr<const Json::boolean_t *>() ? "true" : "false";
    break;
  case Json::value_t::number_integer:
    out += std::to_string(*value.get_ptr<const Json::number_integer_t *>());
    break;
  case Json::value_t::number_unsigned:
    out += std::to_string(*value.get_ptr<const Json::number_unsigned_t *>());
    break;
  case Json::value_t::number_float:
    writeFloat(*value.get_ptr<const Json::number_float_t *>(), out);
    break;
  case Json::value_t::string:
    writeString(*value.get_ptr<const Json::string_t *>(), out);
    break;
  case Json::value_t::array: {
    out += '[';
    bool first = true;
    for (const Json &element : value) {
      out += first ? "" : comma;
      first = false;
      write(element, style, out);
    }
    out += ']';
    break;
  }
  case Json::value_t::object: {
    out += '{';
    bool first = true;
    for (auto it = value.begin(); it != value.end(); ++it) {
      out += first ? "" : comma;
      first = false;
      writeString(it.key(), out);
      out += colon;
      write(it.value(), style, out);
    }
    out += '}';
    break;
  }
  default: // null; the parser makes nothing else
    out += "null";
  }
}
} // namespace

bool parseJson(std::string_view text, Json &value, std::string &error) {
  if (bracketDepth(text) > maxJsonDepth) {
    error = "JSON is more than " + std::to_string(maxJsonDepth) + " levels deep";
    return false;
  }
  // The library takes a NUL for the end of the text.
  size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    error = "not valid JSON at byte " + std::to_string(nul) + ": NUL character";
    return false;
  }
  Json parsed;
  ErrorReader reader(parsed);
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    if (reader.tooManyKeys) {
      error = "a JSON object has more than " + std::to_string(maxJsonKeys) +
              " keys";
      return false;
    }
    error = "not valid JSON at byte " + std::to_string(reader.at == 0 ? 0 : reader.at - 1);
    // The library's own text ends in the reason: "...: syntax error while
    // parsing value - unexpected end of input; expected ...".
    size_t dash = reader.reason.rfind(" - ");
    size_t semicolon = reader.reason.find(';', dash);
    if (dash != std::string::npos)
      error += ": " + reader.reason.substr(dash + 3, semicolon - dash - 3);
    for (char &c : error)
      if (static_cast<unsigned char>(c) < 0x20)
        c = ' ';
    return false;
  }
  value = std::move(parsed);
  return true;
}

std::string dumpJson(const Json &value, JsonStyle style) {
  std::string out;
  write(value, style, out);
  return out;
}

Json sortKeys(const Json &value) {
  if (value.is_array()) {
    Json sorted = Json::array();
    for (const Json &element : value)
      sorted.push_back(sortKeys(element));
    return sorted;
  }
  if (!value.is_object())
    return value;
  // Byte order of UTF-8 is code point order.
  std::vector<Json::const_iterator> entries;
  for (auto it = value.begin(); it != value.end(); ++it)
    entries.push_back(it);
  std::sort(entries.begin(), entries.end(),
            [](const Json::const_iterator &a, const Json::const_iterator &b) {
              return a.key() < b.key();
            });
  Json sorted = Json::object();
  for (const Json::const_iterator &entry : entries)
    sorted[entry.key()] = sortKeys(entry.value());
  return sorted;
}

} // namespace k3rt
