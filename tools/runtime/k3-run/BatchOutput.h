//===- BatchOutput.h - the output of k3-run batch -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_BATCHOUTPUT_H
#define K3_TOOLS_K3RUN_BATCHOUTPUT_H

#include <cstdint>
#include <fstream>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

namespace k3run {

/// Result lines in a file that may hold those of an earlier run, or in a stream.
class BatchOutput {
public:
  /// `path` "-": `stream`. Reads the results that the file has and cuts off a
  /// last line that was not finished. `overwrite`: begins anew. `unordered`:
  /// results are written as they come, else by line. False with one line in
  /// `error`, also for a file that is not such an output, which stays as it is.
  [[nodiscard]] bool open(const std::string &path, std::ostream &stream,
                          bool overwrite, bool unordered, std::string &error);

  /// Results that were there.
  size_t found() const { return done.size(); }
  /// Whether the file has the result of this line. False with one line in
  /// `error` if it has one of another request.
  [[nodiscard]] bool isDone(uint64_t line, const std::string &hash, bool &out,
                            std::string &error) const;

  /// In order: line `line` comes next after those expected before. Every line
  /// that gets a result must be expected first, in order.
  void expect(uint64_t line);
  /// Takes the result of an expected line. False with one line in `error` when
  /// it cannot be written.
  [[nodiscard]] bool write(uint64_t line, const nlohmann::ordered_json &result,
                           std::string &error);
  /// Results that wait for one before them.
  size_t held() const { return ready.size(); }

private:
  bool readResults(const std::string &path, uint64_t &end, std::string &error);
  bool put(const std::string &text, std::string &error);

  std::string path;
  std::ostream *stream = nullptr;
  std::ofstream file;
  bool unordered = false;
  std::unordered_map<uint64_t, std::string> done; ///< line to hash
  std::map<uint64_t, bool> expected;              ///< not written yet
  std::map<uint64_t, std::string> ready;
};

} // namespace k3run

#endif // K3_TOOLS_K3RUN_BATCHOUTPUT_H
