//===- Progress.h - a progress bar on the terminal ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_PROGRESS_H
#define K3_FRONTEND_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <string>

namespace k3::frontend {

/// One line on standard error that shows how many of `total` bytes are done. Appears only if standard error is a
/// terminal and the work takes more than two seconds; erased at the end.
class Progress {
public:
  Progress(std::string what, uint64_t total);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  void advance(uint64_t bytes);

  /// The line at `seconds` after the start.
  std::string getText(double seconds) const;

private:
  using Clock = std::chrono::steady_clock;
  std::string what;
  uint64_t total, done = 0;
  Clock::time_point start = Clock::now(), shown = start;
  bool isTerminal, visible = false;
};

} // namespace k3::frontend

#endif // K3_FRONTEND_PROGRESS_H
