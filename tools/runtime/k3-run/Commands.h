//===- Commands.h - the commands of k3-run ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_COMMANDS_H
#define K3_TOOLS_K3RUN_COMMANDS_H

#include "tools/runtime/k3-run/Generation.h"

#include <iosfwd>

namespace k3run {

struct Streams {
  std::istream &in;
  std::ostream &out;
  std::ostream &err;
  /// Whether a person types the input of `chat`.
  bool interactive = false;
  /// Whether `err` is a terminal, on which a line can be written over.
  bool showProgress = false;
  Clock::time_point start = Clock::now();
};

/// Each command returns false with one line in `error`.
[[nodiscard]] bool runGenerate(const Options &options, Streams &streams,
                               std::string &error);
[[nodiscard]] bool runChat(const Options &options, Streams &streams,
                           std::string &error);
[[nodiscard]] bool runScore(const Options &options, Streams &streams,
                            std::string &error);
[[nodiscard]] bool runVerify(const Options &options, Streams &streams,
                             std::string &error);
[[nodiscard]] bool runCanary(const Options &options, Streams &streams,
                             std::string &error);
[[nodiscard]] bool runBatch(const Options &options, Streams &streams,
                            std::string &error);
[[nodiscard]] bool runReplay(const Options &options, Streams &streams,
                             std::string &error);
[[nodiscard]] bool runPlan(const Options &options, Streams &streams,
                           std::string &error);

/// The whole program. `programPath`: the file this program was started from.
int runMain(const std::string &programPath,
            const std::vector<std::string> &arguments, Streams &streams);

/// The content of a file, or of `in` for "-".
[[nodiscard]] bool readText(const std::string &path, std::istream &in,
                            std::string &text, std::string &error);

} // namespace k3run

#endif // K3_TOOLS_K3RUN_COMMANDS_H
