//===- PythonJson.h - JSON written as Python writes it ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_PYTHONJSON_H
#define K3RT_TEXT_PYTHONJSON_H

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace k3rt {

/// Keeps the order of keys, which the chat formats copy into the prompt.
using Json = nlohmann::ordered_json;

/// Parses untrusted JSON: valid UTF-8 without lone surrogates, at most
/// `maxJsonDepth` levels deep, at most `maxJsonKeys` keys in one object. False
/// with one line in `error` otherwise; `value` is then unchanged.
bool parseJson(std::string_view text, Json &value, std::string &error);
constexpr int maxJsonDepth = 200;
constexpr int maxJsonKeys = 4096;

/// The two separator styles of Python's json.dumps.
enum class JsonStyle {
  spaced, ///< ", " and ": ", the default
  compact ///< "," and ":"
};

/// Writes `value` (from parseJson) as json.dumps(value, ensure_ascii=False) does:
/// the models were trained on prompts made with it. An integer outside 64 bits
/// was read as a float and is written as one.
std::string dumpJson(const Json &value, JsonStyle style);

/// `value` with the keys of every object in order of their code points.
Json sortKeys(const Json &value);

} // namespace k3rt

#endif // K3RT_TEXT_PYTHONJSON_H
