//===- k3-gpu-player.cpp - replays kernel tests on a GPU -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A kernel that fails takes its process with it: cases are played by a child process, which a new one follows where it
// ended or took too long.
//
//===----------------------------------------------------------------------===//
#include "test/gpu/CudaGpu.h"
#include "test/gpu/Player.h"
#include "test/gpu/Report.h"
#include "test/gpu/Tasks.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <poll.h>
#include <random>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace k3::gpu;
using nlohmann::json;

namespace {

const char *const usage =
    R"(usage: k3-gpu-player FILE.json... [options]
Runs the kernels of case files on a GPU and checks their results.
  --filter=TEXT       only tests whose name contains TEXT (may be given several times)
  --one-of-each       of all cases with the same op, strategy and element types only one
  --json=FILE         write the report there
  --device=N          CUDA device (0)
  --repeats=N         runs that must agree to the last bit (50)
  --no-measure        take no times
  --round=TEXT,...    only take the time of a round of the first tests whose names contain these, one after the other
  --exact-memory      every argument in memory of its own, of exactly its size, one run: for a memory checker
  --in-process        no child process
  --case-seconds=N    longest time for one case (60)
  --seconds=N         start no case after this time, but take an even choice of all of them (no limit)
  --list              print the tests
Exit code: 0 all passed, 1 something failed, 2 the arguments or files are wrong.
)";

struct Options {
  std::vector<std::string> files, filters, round;
  std::string report;
  int device = 0, caseSeconds = 60, seconds = 0;
  bool inProcess = false, list = false, oneOfEach = false;
  PlayOptions play;
};

[[noreturn]] void refuse(const std::string &message) {
  std::fprintf(stderr, "k3-gpu-player: %s\n", message.c_str());
  std::exit(2);
}

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i], value;
    std::size_t equals = argument.find('=');
    if (argument.rfind("--", 0) == 0 && equals != std::string::npos) {
      value = argument.substr(equals + 1);
      argument = argument.substr(0, equals);
    }
    auto number = [&] {
      char *end = nullptr;
      long n = std::strtol(value.c_str(), &end, 10);
      if (value.empty() || *end || n < 0 || n > 1000000)
        refuse(argument + " takes a number, got '" + value + "'");
      return static_cast<int>(n);
    };
    if (argument == "--filter")
      options.filters.push_back(value);
    else if (argument == "--json")
      options.report = value;
    else if (argument == "--device")
      options.device = number();
    else if (argument == "--repeats")
      options.play.repeats = number();
    else if (argument == "--case-seconds")
      options.caseSeconds = number();
    else if (argument == "--seconds")
      options.seconds = number();
    else if (argument == "--no-measure")
      options.play.measure = false;
    else if (argument == "--exact-memory")
      options.play.exactMemory = true;
    else if (argument == "--round") {
      std::istringstream texts(value);
      for (std::string text; std::getline(texts, text, ',');)
        options.round.push_back(text);
      if (options.round.empty())
        refuse("--round takes parts of names");
    } else if (argument == "--in-process")
      options.inProcess = true;
    else if (argument == "--one-of-each")
      options.oneOfEach = true;
    else if (argument == "--list")
      options.list = true;
    else if (argument == "--help") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (argument.rfind("--", 0) == 0)
      refuse("unknown option '" + argument + "'; --help lists them");
    else
      options.files.push_back(argument);
  }
  if (options.files.empty())
    refuse("no case file given; --help tells more");
  return options;
}

class Session {
public:
  explicit Session(Options given) : options(std::move(given)), sets(options.files.size()) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      std::string error;
      if (!sets[i].read(options.files[i], error))
        refuse(error);
      for (std::size_t j = 0; j < sets[i].cases.size(); ++j)
        for (std::size_t v = 0; v < sets[i].cases[j].variants.size(); ++v)
          if (isWanted(sets[i].cases[j].test))
            tasks.push_back({i, j, v});
    }
    if (options.oneOfEach)
      tasks = chooseOneOfEach(sets, tasks);
    if (options.seconds > 0) // so that what time does not reach is some of everything
      std::shuffle(tasks.begin(), tasks.end(), std::mt19937(1));
  }

  int run() {
    if (options.list) {
      for (const Task &task : tasks)
        std::printf("%s %s\n", caseOf(task).test.c_str(), kernelOf(task).strategy.c_str());
      return 0;
    }
    if (!options.round.empty())
      return timeRound();
    if (options.inProcess) {
      play(0, [&](const json &message) { take(message); });
    } else {
      for (std::size_t first = 0; first < tasks.size() && !isOver();)
        first = supervise(first);
    }
    json report = makeReport(device, std::move(results));
    if (!options.report.empty()) {
      std::ofstream file(options.report);
      file << report.dump(1) << '\n';
      if (!file.flush())
        refuse(options.report + ": cannot be written");
    }
    printSummary(report);
    return report.at("failed").get<int>() == 0 ? 0 : 1;
  }

private:
  bool isWanted(const std::string &test) const {
    for (const std::string &filter : options.filters)
      if (test.find(filter) != std::string::npos)
        return true;
    return options.filters.empty();
  }
  bool isOver() const {
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    return options.seconds > 0 && spent.count() > options.seconds;
  }
  const Case &caseOf(const Task &task) const { return sets[task.set].cases[task.number]; }
  const Kernel &kernelOf(const Task &task) const {
    return sets[task.set].kernels[caseOf(task).variants[task.variant].kernel];
  }

  /// The tests of a round are in one file.
  int timeRound() {
    std::vector<std::pair<const Case *, const Variant *>> round;
    std::size_t set = 0;
    double bytes = 0;
    std::string names;
    for (const std::string &text : options.round) {
      auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task &task) {
        return caseOf(task).test.find(text) != std::string::npos && (round.empty() || task.set == set);
      });
      if (found == tasks.end())
        refuse("no test has '" + text + "' in its name");
      set = found->set;
      round.emplace_back(&caseOf(*found), &caseOf(*found).variants[found->variant]);
      bytes += caseOf(*found).trafficBytes;
      names += " " + caseOf(*found).test;
    }
    try {
      std::unique_ptr<Gpu> gpu = openCuda(options.device);
      Player::RoundTime time = Player(*gpu, sets[set], options.play).timeRound(round);
      std::printf("round of%s: %.2f us, %.1f GB/s; overlapping %.2f us, %.1f GB/s\n", names.c_str(), time.seconds * 1e6,
                  bytes / time.seconds * 1e-9, time.earlySeconds * 1e6, bytes / time.earlySeconds * 1e-9);
    } catch (const GpuError &e) {
      refuse(e.what());
    }
    return 0;
  }

  /// Plays tasks from `first` on until the device is lost; says what happens through `tell`.
  template <typename Tell> void play(std::size_t first, Tell tell) {
    std::unique_ptr<Gpu> gpu;
    try {
      gpu = openCuda(options.device);
    } catch (const GpuError &e) {
      tell({{"refused", e.what()}});
      return;
    }
    tell({{"device", gpu->name()}});
    std::vector<std::unique_ptr<Player>> players;
    for (const CaseSet &set : sets)
      players.push_back(std::make_unique<Player>(*gpu, set, options.play));
    for (std::size_t i = first; i < tasks.size() && !isOver(); ++i) {
      const Task &task = tasks[i];
      tell({{"begin", i}});
      PlayResult result;
      bool lost = false;
      try {
        result = players[task.set]->play(caseOf(task), caseOf(task).variants[task.variant]);
      } catch (const GpuError &e) {
        result.failures.push_back(e.what());
        lost = e.lost;
      }
      tell({{"end", i},
            {"result", describe(caseOf(task), kernelOf(task), caseOf(task).variants[task.variant], result)}});
      if (lost)
        return;
    }
    tell({{"done", true}});
  }

  void take(const json &message) {
    if (message.contains("refused"))
      refuse(message.at("refused").get<std::string>());
    if (message.contains("device"))
      device = message.at("device").get<std::string>();
    if (message.contains("end"))
      results.push_back(message.at("result"));
  }

  /// Plays tasks from `first` on in a child process; returns the first that is still to be played.
  std::size_t supervise(std::size_t first) {
    int pipes[2];
    if (pipe(pipes) != 0)
      refuse(std::string("no pipe: ") + std::strerror(errno));
    std::fflush(nullptr);
    pid_t child = fork();
    if (child < 0)
      refuse(std::string("no child process: ") + std::strerror(errno));
    if (child == 0) {
      close(pipes[0]);
      play(first, [&](const json &message) {
        std::string line = message.dump() + "\n";
        for (std::size_t sent = 0; sent < line.size();) {
          ssize_t n = write(pipes[1], line.data() + sent, line.size() - sent);
          if (n <= 0)
            _exit(3);
          sent += static_cast<std::size_t>(n);
        }
      });
      _exit(0); // no destructors: the device may be lost
    }
    close(pipes[1]);
    std::size_t next = first, playing = tasks.size();
    std::string buffer, end = "its process ended";
    for (bool open = true; open;) {
      pollfd poller{pipes[0], POLLIN, 0};
      int ready = poll(&poller, 1, options.caseSeconds * 1000);
      if (ready < 0 && errno == EINTR)
        continue;
      if (ready <= 0) {
        end = "took longer than " + std::to_string(options.caseSeconds) + " s";
        kill(child, SIGKILL);
        break;
      }
      char chunk[65536];
      ssize_t n = read(pipes[0], chunk, sizeof chunk);
      open = n > 0;
      buffer.append(chunk, n > 0 ? static_cast<std::size_t>(n) : 0);
      for (std::size_t newline; (newline = buffer.find('\n')) != std::string::npos; buffer.erase(0, newline + 1)) {
        json message = json::parse(buffer.substr(0, newline));
        take(message);
        if (message.contains("begin"))
          playing = message.at("begin").get<std::size_t>();
        if (message.contains("end")) {
          next = message.at("end").get<std::size_t>() + 1;
          playing = tasks.size();
        }
      }
    }
    close(pipes[0]);
    waitpid(child, nullptr, 0);
    if (playing < tasks.size()) {
      PlayResult result;
      result.failures.push_back(end);
      const Case &c = caseOf(tasks[playing]);
      results.push_back(describe(c, kernelOf(tasks[playing]), c.variants[tasks[playing].variant], result));
      next = playing + 1;
    } else if (next == first && !isOver()) {
      refuse("a child process ended before it played anything");
    }
    return next;
  }

  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  Options options;
  std::vector<CaseSet> sets;
  std::vector<Task> tasks;
  std::string device;
  std::vector<json> results;
};

} // namespace

int main(int argc, char **argv) { return Session(parse(argc, argv)).run(); }
