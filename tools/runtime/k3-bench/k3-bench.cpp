//===- k3-bench.cpp - measures a compiled model --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

static k3rt::Status writeFile(const std::string &path, const std::string &text) {
  FILE *file = fopen(path.c_str(), "wb");
  bool written = file && fwrite(text.data(), 1, text.size(), file) == text.size();
  int reason = errno;
  if (file && fclose(file) != 0 && written) {
    written = false;
    reason = errno;
  }
  return written ? k3rt::Status()
                 : k3rt::Status(K3RT_IO_ERROR, path + ": cannot be written: " + std::strerror(reason));
}

static k3rt::Status run(const std::vector<std::string> &arguments, std::string &output) {
  k3bench::Options options;
  K3RT_RETURN_IF_ERROR(k3bench::parseOptions(arguments, options));
  if (options.help) {
    output = k3bench::helpText;
    return k3rt::Status();
  }
  if (options.version) {
    output = "k3-bench " K3_VERSION " (C API " + std::to_string(k3rt_api_version()) + ")\n";
    return k3rt::Status();
  }
  std::vector<k3bench::Measurement> report;
  K3RT_RETURN_IF_ERROR(k3bench::runSuite(options, report));
  if (!options.reportPath.empty())
    K3RT_RETURN_IF_ERROR(writeFile(options.reportPath, k3bench::toJson(report)));
  output = options.json ? k3bench::toJson(report) : k3bench::toTable(report);
  return k3rt::Status();
}

int main(int argc, char **argv) {
  std::string output;
  k3rt::Status status;
  try {
    status = run({argv + (argc > 0), argv + argc}, output);
  } catch (const std::bad_alloc &) {
    status = k3rt::Status(K3RT_OUT_OF_MEMORY, "out of memory");
  }
  if (!status.ok()) {
    fprintf(stderr, "k3-bench: %s\n", status.message().c_str());
    return 1;
  }
  fwrite(output.data(), 1, output.size(), stdout);
  if (fflush(stdout) != 0) {
    fputs("k3-bench: cannot write the output\n", stderr);
    return 1;
  }
  return 0;
}
