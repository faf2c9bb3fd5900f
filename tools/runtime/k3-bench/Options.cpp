//===- Options.cpp - command line of k3-bench ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Options.h"

#include <charconv>
#include <functional>
#include <map>

namespace k3bench {

using k3rt::Status;

const char helpText[] = R"(Measures a compiled model beside what this machine can do.

Usage:
  k3-bench MODEL.k3a                       the whole model: tokens per second
  k3-bench MODEL.k3a --suite cpu-layers    its layers, per kind
  k3-bench MODEL.k3a --suite cpu-ops       every kernel call by itself
  k3-bench --suite machine                 only the machine: read bandwidth, arithmetic
  k3-bench MODEL.k3a --device cuda:0       the same on a GPU; suites gpu-model, gpu-layers, gpu-ops

  --random-weights SEED  make up the weights, for an artifact compiled with --no-weights
  --decode-batch N,...   sequences of a decode step (1); 0 = no decode
  --prefill N,...        tokens of a prefill (512); 0 = no prefill
  --prefill-window N     tokens of a prefill at a time (what it was compiled for)
  --profile              the whole model: every kernel call as well, those that take most of a step first
  --context N            tokens of every sequence before decode is measured (64)
  --repeat N             rounds; the median is shown (5)
  --threads N            threads to use (all cores)
  --device NAME          cpu, or cuda:0 for the first NVIDIA GPU (cpu; gpu suites: cuda:0)
  --no-graph             GPU: launch kernel by kernel
  --no-cublas            GPU: own kernels for large products, too
  --weights-dir DIR      where weight files outside the artifact are
  --json                 one JSON array on standard output (docs/json.md)
  --report FILE          the JSON into this file
  --help, --version

Every round measures the machine and then the model, so that both see the same load. A decode step is
limited by the bytes it must read, a prefill by the arithmetic of its matrix products; `fraction` is
what was reached of that limit. A model that fits into the caches can exceed it. The limits of a GPU are
those its driver names.
)";

namespace {

/// Takes a value; returns what was wanted if that is not it.
using Setter = std::function<const char *(const std::string &)>;

bool parseNumber(const std::string &text, uint64_t least, uint64_t most, uint64_t &value) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}

template <typename Number> Setter number(Number &target, uint64_t least, uint64_t most, const char *wanted) {
  return [=, &target](const std::string &text) -> const char * {
    uint64_t value;
    if (!parseNumber(text, least, most, value))
      return wanted;
    target = Number(value);
    return nullptr;
  };
}

/// Numbers with commas between them; a lone 0 is the empty list.
Setter numberList(std::vector<uint32_t> &target, uint64_t most, const char *wanted) {
  return [=, &target](const std::string &text) -> const char * {
    target.clear();
    if (text == "0")
      return nullptr;
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find(',', begin), text.size());
      uint64_t value;
      if (!parseNumber(text.substr(begin, end - begin), 1, most, value))
        return wanted;
      target.push_back(uint32_t(value));
      begin = end + 1;
    }
    return nullptr;
  };
}

Setter suiteName(Options &target) {
  return [&target](const std::string &text) -> const char * {
    static const std::map<std::string, Suite> suites = {{"machine", Suite::machine},
                                                        {"cpu-ops", Suite::ops},
                                                        {"cpu-layers", Suite::layers},
                                                        {"cpu-model", Suite::model},
                                                        {"gpu-ops", Suite::ops},
                                                        {"gpu-layers", Suite::layers},
                                                        {"gpu-model", Suite::model}};
    auto found = suites.find(text);
    if (found == suites.end())
      return "machine, or cpu- or gpu- with ops, layers or model";
    target.suite = found->second;
    if (text.substr(0, 3) == "gpu" && target.device.isCpu())
      target.device.kind = k3rt::DeviceName::Kind::cuda;
    return nullptr;
  };
}

Status invalid(const std::string &message) { return Status(K3RT_INVALID_ARGUMENT, message); }

} // namespace

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  bool noGraph = false, noCublas = false;
  const std::map<std::string, bool *> flags = {
      {"--no-graph", &noGraph}, {"--no-cublas", &noCublas}, {"--profile", &options.profile},
      {"--json", &options.json}, {"--help", &options.help}, {"-h", &options.help}, {"--version", &options.version}};
  const std::map<std::string, Setter> values = {
      {"--suite", suiteName(options)},
      {"--device", [&](const std::string &text) -> const char * {
         return k3rt::parseDeviceName(text, options.device).ok() ? nullptr : "cpu, cuda:0, cuda:1, ...";
       }},
      {"--threads", number(options.threads, 1, 1024, "a number from 1 to 1024")},
      {"--random-weights", number(options.randomWeights, 1, UINT64_MAX, "a number from 1 on")},
      {"--repeat", number(options.repeat, 1, 1000, "a number from 1 to 1000")},
      {"--context", number(options.context, 1, 1 << 24, "a number from 1 to 16777216")},
      {"--decode-batch", numberList(options.decodeBatches, 1 << 16, "numbers from 1 to 65536 with commas, or 0")},
      {"--prefill", numberList(options.prefills, 1 << 24, "numbers from 1 to 16777216 with commas, or 0")},
      {"--prefill-window", number(options.prefillWindow, 1, 1 << 24, "a number from 1 to 16777216")},
      {"--report", [&](const std::string &text) -> const char * {
         options.reportPath = text;
         return text.empty() ? "a file" : nullptr;
       }},
      {"--weights-dir", [&](const std::string &text) -> const char * {
         options.weightsDir = text;
         return text.empty() ? "a folder" : nullptr;
       }}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument.substr(0, 1) != "-") {
      if (!options.path.empty())
        return invalid("more than one artifact: " + k3rt::quoted(argument));
      options.path = argument;
      continue;
    }
    size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    if (auto flag = flags.find(name); flag != flags.end() && equals == std::string::npos) {
      *flag->second = true;
      continue;
    }
    auto value = values.find(name);
    if (value == values.end())
      return invalid("unknown option " + k3rt::quoted(argument) + " (see --help)");
    if (equals == std::string::npos && i + 1 == arguments.size())
      return invalid(name + " needs a value");
    std::string given = equals != std::string::npos ? argument.substr(equals + 1) : arguments[++i];
    if (const char *wanted = value->second(given))
      return invalid(name + " wants " + wanted + ", got " + k3rt::quoted(given));
  }
  options.graph = !noGraph;
  options.cublas = noCublas ? -1 : 0;
  if (options.profile && options.suite != Suite::model)
    return invalid("--profile is for the suites cpu-model and gpu-model");
  if (options.path.empty() && options.suite != Suite::machine && !options.help && !options.version)
    return invalid("no artifact given (see --help)");
  return Status();
}

} // namespace k3bench
