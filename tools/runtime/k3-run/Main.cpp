//===- Main.cpp - the program without its entry point -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"
#include "tools/runtime/k3-run/Embedded.h"

#include <fstream>
#include <iterator>
#include <ostream>

namespace k3run {

bool readText(const std::string &path, std::istream &in, std::string &text,
              std::string &error) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    // A directory opens and then cannot be read.
    if (!file || file.peek() == std::ifstream::traits_type::eof()) {
      if (file.is_open() && file.eof() && !file.bad()) {
        text.clear();
        return true;
      }
      error = path + ": cannot be read";
      return false;
    }
  }
  std::istream &source = path == "-" ? in : file;
  text.assign(std::istreambuf_iterator<char>(source), {});
  if (source.bad()) {
    error = path + ": cannot be read";
    return false;
  }
  return true;
}

int runMain(const std::string &programPath,
            const std::vector<std::string> &arguments, Streams &streams) {
  std::string program = programPath.substr(programPath.rfind('/') + 1);
  std::string error;
  auto fail = [&] {
    streams.err << program << ": " << error << '\n';
    return 1;
  };
  std::optional<ArtifactLocation> embedded;
  Options options;
  if (!findEmbedded(programPath, embedded, error) ||
      !parseOptions(arguments, embedded, options, error))
    return fail();
  bool done = true;
  switch (options.command) {
  case Command::help:
    streams.out << helpText(program, embedded.has_value());
    break;
  case Command::version:
    streams.out << program << " " K3_VERSION " (C API " << k3rt_api_version()
                << ")\n";
    break;
  case Command::generate:
    done = runGenerate(options, streams, error);
    break;
  case Command::chat:
    done = runChat(options, streams, error);
    break;
  case Command::score:
    done = runScore(options, streams, error);
    break;
  case Command::verify:
    done = runVerify(options, streams, error);
    break;
  case Command::canary:
    done = runCanary(options, streams, error);
    break;
  case Command::batch:
    done = runBatch(options, streams, error);
    break;
  case Command::replay:
    done = runReplay(options, streams, error);
    break;
  case Command::plan:
    done = runPlan(options, streams, error);
    break;
  }
  streams.out.flush();
  if (done && !streams.out) {
    error = "cannot write to standard output";
    done = false;
  }
  return done ? 0 : fail();
}

} // namespace k3run
