//===- k3-inspect.cpp - shows what is in an artifact ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-inspect/Describe.h"
#include "tools/runtime/k3-inspect/Inspect.h"
#include "tools/runtime/k3-run/Embedded.h"

#include <cstdio>
#include <string_view>

using k3rt::Status;

static const char help[] =
    R"(Shows what is in an artifact, or in a self-contained executable.

Usage:
  k3-inspect MODEL.k3a                        model, code, weights, states, programs in short
  k3-inspect MODEL.k3a --program=decode       every dispatch of a decode step
  k3-inspect MODEL.k3a --check                is it whole, and does it run here?

  --json              as JSON instead of lines
  --program=PHASE     only one program: prefill or decode
  --gpu               the program for the GPU (with --program)
  --dot               a program's dispatches as a Graphviz graph (with --program)
  --check             verify all hashes, the weight files and this CPU instead
  --weights-dir=DIR   where the weight files are (with --check)
  --help, --version
)";

namespace {

struct Options {
  std::string path, weightsDir;
  bool json = false, dot = false, check = false, help = false, version = false;
  k3inspect::Selection program;
};

} // namespace

static Status invalid(const std::string &message) {
  return Status(K3RT_INVALID_ARGUMENT, message);
}

/// The value of "--name=value" or "--name value".
static bool takeValue(std::string_view name, int argc, char **argv, int &i,
                      std::string &value) {
  std::string_view argument = argv[i];
  if (argument == name && i + 1 < argc) {
    value = argv[++i];
    return true;
  }
  if (argument.substr(0, name.size()) != name ||
      argument.substr(name.size(), 1) != "=")
    return false;
  value = argument.substr(name.size() + 1);
  return true;
}

static Status parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    std::string value;
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--dot") {
      options.dot = true;
    } else if (argument == "--gpu") {
      options.program.gpu = true;
    } else if (argument == "--check") {
      options.check = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--version") {
      options.version = true;
    } else if (takeValue("--weights-dir", argc, argv, i, value)) {
      options.weightsDir = value;
    } else if (takeValue("--program", argc, argv, i, value)) {
      if (value != "prefill" && value != "decode")
        return invalid("--program is " + k3rt::quoted(value) +
                       " (prefill or decode)");
      options.program.phase = value == "decode" ? k3::artifact::Phase::Decode
                                                : k3::artifact::Phase::Prefill;
    } else if (argument.substr(0, 1) == "-") {
      return invalid("unknown option " + std::string(argument));
    } else if (!options.path.empty()) {
      return invalid("more than one file: " + std::string(argument));
    } else {
      options.path = argument;
    }
  }
  if (options.help || options.version)
    return Status();
  if (options.path.empty())
    return invalid("no file (see --help)");
  if (options.json + options.dot + options.check > 1)
    return invalid("--json, --dot and --check exclude each other");
  if (options.dot && !options.program)
    return invalid("--dot needs --program");
  if (options.program.gpu && !options.program)
    return invalid("--gpu needs --program");
  return Status();
}

static Status inspect(const Options &options, std::string &output) {
  uint64_t offset = 0;
  std::optional<k3run::ArtifactLocation> embedded;
  std::string error;
  if (!k3run::findEmbedded(options.path, embedded, error))
    return Status(K3RT_BAD_ARTIFACT, error);
  if (embedded)
    offset = embedded->offset;
  k3rt::Artifact artifact;
  K3RT_RETURN_IF_ERROR(artifact.open(options.path, offset));
  if (options.check)
    return k3inspect::check(artifact, options.weightsDir, output);
  const auto &index = artifact.index();
  const k3::artifact::Program *program =
      options.program ? k3inspect::findProgram(index, options.program)
                      : nullptr;
  if (options.program && !program)
    return invalid(options.path + ": it has no " +
                   (options.program.gpu ? "GPU " : "") +
                   k3inspect::phaseName(*options.program.phase) + " program");
  if (options.dot)
    output = k3inspect::toDot(index, *program);
  else if (options.json)
    output = k3inspect::toJson(index, options.program);
  else
    output = k3inspect::toText(index, options.program);
  return Status();
}

int main(int argc, char **argv) {
  Options options;
  std::string output;
  Status status = parse(argc, argv, options);
  if (status.ok() && options.help)
    output = help;
  else if (status.ok() && options.version)
    output = "k3-inspect " K3_VERSION " (C API " +
             std::to_string(k3rt_api_version()) + ")\n";
  else if (status.ok())
    status = inspect(options, output);
  fwrite(output.data(), 1, output.size(), stdout);
  if (fflush(stdout) != 0) {
    fputs("k3-inspect: cannot write the output\n", stderr);
    return 1;
  }
  if (!status.ok()) {
    fprintf(stderr, "k3-inspect: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
