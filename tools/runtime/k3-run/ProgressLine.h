//===- ProgressLine.h - how far a long command is, on a terminal --------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_PROGRESSLINE_H
#define K3_TOOLS_K3RUN_PROGRESSLINE_H

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

namespace k3run {

/// One line that is written over and over, at most ten times a second.
class ProgressLine {
public:
  /// `shown` false: nothing is ever written.
  ProgressLine(std::ostream &out, bool shown) : out(out), shown(shown) {}
  ~ProgressLine() { clear(); }

  /// `total` 0: not known. `note` follows the bar.
  void show(uint64_t done, uint64_t total, const std::string &note);
  /// Makes room for other output.
  void clear();

private:
  std::ostream &out;
  bool shown;
  size_t width = 0; ///< of what is on the line now
  std::chrono::steady_clock::time_point last;
};

} // namespace k3run

#endif // K3_TOOLS_K3RUN_PROGRESSLINE_H
