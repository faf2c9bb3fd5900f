//===- k3-run.cpp - runs a compiled model -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"

#include <iostream>
#include <new>
#include <unistd.h>

int main(int argc, char **argv) {
  k3run::Streams streams{std::cin, std::cout, std::cerr};
  streams.interactive = isatty(STDIN_FILENO) != 0;
  streams.showProgress = isatty(STDERR_FILENO) != 0;
  std::ios::sync_with_stdio(false);
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::string program =
      length > 0 && length < static_cast<ssize_t>(sizeof(path))
          ? std::string(path, static_cast<size_t>(length))
          : std::string(argc > 0 ? argv[0] : "k3-run");
  try {
    return k3run::runMain(program, {argv + (argc > 0), argv + argc}, streams);
  } catch (const std::bad_alloc &) {
    std::cerr << "k3-run: out of memory\n";
    return 1;
  }
}
