//===- ProgressLine.cpp - how far a long command is, on a terminal ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/ProgressLine.h"

#include <algorithm>
#include <ostream>

namespace k3run {

void ProgressLine::show(uint64_t done, uint64_t total,
                        const std::string &note) {
  auto now = std::chrono::steady_clock::now();
  if (!shown || now - last < std::chrono::milliseconds(100))
    return;
  last = now;
  std::string text;
  if (total != 0) {
    constexpr uint64_t cells = 24;
    uint64_t full = std::min(done, total) * cells / total;
    text = "[" + std::string(full, '#') + std::string(cells - full, '.') + "] ";
  }
  text += std::to_string(done);
  if (total != 0)
    text += "/" + std::to_string(total);
  text += "  " + note;
  size_t before = width;
  width = text.size();
  if (text.size() < before)
    text.resize(before, ' ');
  out << '\r' << text << std::flush;
}

void ProgressLine::clear() {
  if (width != 0)
    out << '\r' << std::string(width, ' ') << '\r' << std::flush;
  width = 0;
}

} // namespace k3run
