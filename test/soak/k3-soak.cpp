//===- k3-soak.cpp - the runtime for a long time, or in any order ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Ends with 1 and how to see it again at the first thing that is not as it
// should be.
//===----------------------------------------------------------------------===//
#include "test/soak/Check.h"
#include "test/soak/RandomOperations.h"
#include "test/soak/RandomRequests.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <sys/prctl.h>

namespace {

const char usage[] =
    "Runs random calls, or random requests, and compares every sequence with what it is alone.\n"
    "\n"
    "Usage: k3-soak [MODEL.k3a] [options]   without an artifact: the toy model of the tests\n"
    "\n"
    "  --operations N   N random calls: sequences, snapshots, files, marks, prefixes, requests\n"
    "  --steps N        N steps of many requests: 64 for 10 slots, even seeds: 48 streams\n"
    "  --seconds S      the same for S seconds, after which memory must not have grown\n"
    "  --tolerance T    logits and states may differ by T from those alone (0: not by a bit,\n"
    "                   which needs an artifact of k3-compile --deterministic)\n"
    "  --seed N         the same seed, the same run (1)\n"
    "  --threads N      threads of the engine (2)\n"
    "  --json           the counts as JSON\n";

double secondsNow() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// An assertion or a sanitizer ends the program.
void sayWhere() {
  fprintf(stderr, "k3-soak: in %s\n", soak::again().c_str());
}

struct Command {
  soak::Options options;
  unsigned long long operations = 0, steps = 0;
  double seconds = 0;
  bool json = false;
};

/// One line about `name`, which counts[0] is how many of.
void print(const Command &command, const soak::Counts &counts,
           const soak::Growth &growth, double seconds) {
  if (command.json) {
    printf("{\"model\":\"%s\",\"seed\":%u",
           command.options.artifact.empty() ? "toy"
                                            : command.options.artifact.c_str(),
           command.options.seed);
    for (auto [name, count] : counts) {
      std::string key = name;
      std::replace(key.begin(), key.end(), ' ', '_');
      printf(",\"%s\":%llu", key.c_str(), soak::Word(count));
    }
    printf(",\"memory_bytes\":[%llu,%llu],\"seconds\":%.1f}\n",
           soak::Word(growth.first()), soak::Word(growth.most()), seconds);
    return;
  }
  for (size_t i = 0; i < counts.size(); ++i)
    printf("%s%llu %s", i == 0 ? "" : i == 1 ? ": " : ", ",
           soak::Word(counts[i].second), counts[i].first);
  printf("; memory %.2f MB warm, at most %.2f MB later; %.1f s\n",
         double(growth.first()) / 1e6, double(growth.most()) / 1e6, seconds);
}

/// Runs `load` until `goesOn` says no; `progress`: how much of the run is done.
/// Where it is drained depends on the number alone.
template <typename Load>
void soakWith(const Command &command, const char *kind, uint64_t between,
              uint64_t context, const std::function<double(uint64_t)> &progress) {
  soak::place.kind = kind;
  soak::place.number = 0;
  soak::Subject subject(command.options, context);
  Load load(subject);
  soak::Growth growth;
  double start = secondsNow();
  for (uint64_t number = 0;;) {
    double done = progress(number);
    if (number % between == 0 || done >= 1) {
      load.drain();
      growth.measure(subject, load.underLoad(), number != 0 && done >= 0.25);
    }
    if (done >= 1)
      break;
    soak::place.number = ++number;
    load.run();
  }
  print(command, load.counts(), growth, secondsNow() - start);
}

bool readNumber(const char *text, double &out) {
  char *end = nullptr;
  out = strtod(text, &end);
  return end != text && *end == '\0' && out >= 0;
}

bool readCommand(int argc, char **argv, Command &command) {
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    if (option == "--json") {
      command.json = true;
      continue;
    }
    if (option.rfind("--", 0) != 0) {
      command.options.artifact = option;
      continue;
    }
    double value = 0;
    if (++i == argc || !readNumber(argv[i], value))
      return false;
    if (option == "--operations")
      command.operations = static_cast<unsigned long long>(value);
    else if (option == "--steps")
      command.steps = static_cast<unsigned long long>(value);
    else if (option == "--seconds")
      command.seconds = value;
    else if (option == "--tolerance")
      command.options.tolerance = value;
    else if (option == "--seed")
      command.options.seed = uint32_t(value);
    else if (option == "--threads")
      command.options.threads = uint32_t(value);
    else
      return false;
  }
  return command.operations != 0 || command.steps != 0 || command.seconds != 0;
}

} // namespace

#ifdef K3_SOAK_SANITIZED
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

int main(int argc, char **argv) {
#ifdef K3_SOAK_SANITIZED
  __sanitizer_set_death_callback(sayWhere);
#endif
  signal(SIGABRT, [](int) { sayWhere(); });
  Command command;
  // Memory that nobody has touched must not come to be counted.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  if (!readCommand(argc, argv, command)) {
    fputs(usage, stderr);
    return 1;
  }
  bool isToy = command.options.artifact.empty();
  if (!isToy)
    soak::place.options = command.options.artifact + " ";
  if (command.options.tolerance != 0)
    soak::place.options +=
        "--tolerance " + std::to_string(command.options.tolerance) + " ";
  soak::place.seed = command.options.seed;
  if (command.operations != 0)
    soakWith<soak::RandomOperations>(
        command, "--operations", 5000, isToy ? 48 : 160, [&](uint64_t number) {
          return double(number) / double(command.operations);
        });
  if (command.steps != 0 || command.seconds != 0) {
    double start = secondsNow();
    soakWith<soak::RandomRequests>(
        command, "--steps", isToy ? 5000 : 1000, 160, [&](uint64_t number) {
          return command.steps != 0
                     ? double(number) / double(command.steps)
                     : (secondsNow() - start) / command.seconds;
        });
  }
  return 0;
}
