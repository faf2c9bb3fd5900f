//===- BatchOutput.cpp - the output of k3-run batch ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/BatchOutput.h"

#include <cerrno>
#include <cstring>
#include <ostream>
#include <unistd.h>

namespace k3run {

bool BatchOutput::readResults(const std::string &name, uint64_t &end,
                              std::string &error) {
  std::ifstream in(name, std::ios::binary);
  end = 0;
  if (!in)
    return true; // a new file; opening it says what is wrong with it
  std::string text;
  for (uint64_t number = 1; std::getline(in, text); ++number) {
    if (in.eof())
      return true; // no newline: it was being written
    auto result = nlohmann::json::parse(text, nullptr, false);
    if (!result.is_object() || !result.contains("line") ||
        !result["line"].is_number_unsigned() ||
        !result.contains("request_hash") ||
        !result["request_hash"].is_string()) {
      error = name + ":" + std::to_string(number) +
              ": not a result of k3-run batch; --overwrite begins anew";
      return false;
    }
    done[result["line"].get<uint64_t>()] =
        result["request_hash"].get<std::string>();
    end += text.size() + 1;
  }
  if (!in.bad())
    return true;
  error = name + ": cannot be read";
  return false;
}

bool BatchOutput::open(const std::string &name, std::ostream &out,
                       bool overwrite, bool asTheyCome, std::string &error) {
  path = name;
  unordered = asTheyCome;
  stream = &out;
  if (path == "-")
    return true;
  uint64_t end = 0;
  if (!overwrite && !readResults(path, end, error))
    return false;
  file.open(path, std::ios::binary |
                      (overwrite ? std::ios::trunc : std::ios::app));
  if (!file ||
      (!overwrite && truncate(path.c_str(), static_cast<off_t>(end)) != 0 &&
       errno != EINVAL)) { // EINVAL: a device
    error = path + ": " + strerror(errno);
    return false;
  }
  stream = &file;
  return true;
}

bool BatchOutput::isDone(uint64_t line, const std::string &hash, bool &out,
                         std::string &error) const {
  auto found = done.find(line);
  out = found != done.end();
  if (!out || found->second == hash)
    return true;
  error = path + ": has the result of another request for line " +
          std::to_string(line) +
          ", or of other options; --overwrite begins anew";
  return false;
}

void BatchOutput::expect(uint64_t line) {
  if (!unordered)
    expected.emplace(line, true);
}

bool BatchOutput::put(const std::string &text, std::string &error) {
  *stream << text << '\n' << std::flush;
  if (*stream)
    return true;
  error = path == "-" ? "cannot write to standard output"
                      : path + ": cannot be written";
  return false;
}

bool BatchOutput::write(uint64_t line, const nlohmann::ordered_json &result,
                        std::string &error) {
  std::string text = result.dump();
  if (unordered)
    return put(text, error);
  ready[line] = std::move(text);
  while (!ready.empty() && ready.begin()->first == expected.begin()->first) {
    if (!put(ready.begin()->second, error))
      return false;
    ready.erase(ready.begin());
    expected.erase(expected.begin());
  }
  return true;
}

} // namespace k3run
