//===- Progress.cpp - a progress bar on the terminal ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

using namespace k3::frontend;

static constexpr double quietSeconds = 2, redrawSeconds = 0.2;

Progress::Progress(std::string what, uint64_t total)
    : what(std::move(what)), total(total), isTerminal(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (visible)
    std::fputs("\r\033[K", stderr);
}

std::string Progress::getText(double seconds) const {
  constexpr int width = 24;
  double share = total ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1.0;
  int filled = static_cast<int>(share * width);
  std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
  double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  char text[160];
  std::snprintf(text, sizeof(text), " [%s] %3d%%  %.1f of %.1f GB  %.2f GB/s  %d s left", bar.c_str(),
                static_cast<int>(share * 100), static_cast<double>(done) / 1e9, static_cast<double>(total) / 1e9,
                rate / 1e9, rate > 0 ? static_cast<int>(static_cast<double>(total - std::min(done, total)) / rate) : 0);
  return what + text;
}

void Progress::advance(uint64_t bytes) {
  done += bytes;
  if (!isTerminal)
    return;
  auto since = [now = Clock::now()](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  if (since(start) < quietSeconds || (visible && since(shown) < redrawSeconds))
    return;
  std::fprintf(stderr, "\r%s\033[K", getText(since(start)).c_str());
  std::fflush(stderr);
  visible = true;
  shown = Clock::now();
}
