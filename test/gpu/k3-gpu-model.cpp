//===- k3-gpu-model.cpp - a compiled model on a GPU against itself ---------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What must not change a model's results: graphs, poison, repetition (to the last bit), other sequences in the batch, and
// the device that a sequence began on. Golden values are k3-run verify's.
//
//===----------------------------------------------------------------------===//
#include "k3rt/k3rt.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>

using nlohmann::json;

namespace {

const char *const usage =
    R"(usage: k3-gpu-model ARTIFACT [options]
Runs a model that is compiled for a CPU and a GPU, and compares runs that must agree.
  --device=NAME      the GPU (cuda:0)
  --weights-dir=DIR  where the model's weights are (as recorded in the artifact)
  --other=NAME       where sequences come from and go to; none: leave that out (cpu)
  --repeats=N        runs that must agree to the last bit (50)
  --tolerance=X      largest difference of a logit between devices (1e-3)
  --json=FILE        write the report there
Exit code: 0 all passed, 1 something failed, 2 the arguments are wrong.
)";

struct Options {
  std::string artifact, device = "cuda:0", other = "cpu", weightsDir, report;
  int repeats = 50;
  double tolerance = 1e-3;
};

using Tokens = std::vector<std::int32_t>;
using Logits = std::vector<float>;

class Engine {
public:
  Engine(const Options &wanted, const std::string &device, bool graph, bool poison) {
    k3rt_engine_options options;
    k3rt_engine_options_init(&options);
    if (!wanted.weightsDir.empty())
      options.weights_dir = wanted.weightsDir.c_str();
    options.max_sequences = 8;
    options.max_context = 1024;
    options.device = device.c_str();
    options.no_graph = !graph;
    options.poison = poison;
    char error[1024] = "";
    auto start = std::chrono::steady_clock::now();
    if (k3rt_engine_open(wanted.artifact.c_str(), 0, &options, &engine, error, sizeof error) != K3RT_OK)
      throw std::runtime_error(error);
    openSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  ~Engine() { k3rt_engine_close(engine); }
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  void check(k3rt_status status) const {
    if (status != K3RT_OK)
      throw std::runtime_error(k3rt_last_error(engine));
  }
  k3rt_sequence create() const {
    k3rt_sequence sequence;
    check(k3rt_sequence_create(engine, &sequence));
    return sequence;
  }
  /// Logits after the last token of each row.
  Logits step(const std::vector<std::pair<k3rt_sequence, Tokens>> &batch) const {
    std::vector<k3rt_batch_row> rows;
    for (const auto &[sequence, tokens] : batch)
      rows.push_back({sequence, tokens.data(), tokens.size(), 0});
    k3rt_batch all{rows.data(), static_cast<std::uint32_t>(rows.size())};
    k3rt_step_result result;
    check(k3rt_step(engine, &all, &result));
    return {result.logits, result.logits + result.num_logit_rows * result.vocab_size};
  }
  k3rt_model_info info() const {
    k3rt_model_info info{};
    info.size = sizeof info;
    check(k3rt_engine_info(engine, &info));
    return info;
  }
  /// Every state of a sequence, one after the other.
  Logits states(k3rt_sequence sequence) const {
    Logits all;
    for (std::uint32_t layer = 0; layer < info().num_layers; ++layer)
      for (const char *name : {"kda", "conv_q", "conv_k", "conv_v", "kv"}) {
        std::uint64_t count = 0;
        if (k3rt_sequence_read_state(engine, sequence, layer, name, nullptr, &count) != K3RT_OK)
          continue; // a layer of another kind
        std::size_t before = all.size();
        all.resize(before + count);
        check(k3rt_sequence_read_state(engine, sequence, layer, name, all.data() + before, &count));
      }
    return all;
  }
  k3rt_engine *get() const { return engine; }
  double openSeconds = 0;

private:
  k3rt_engine *engine = nullptr;
};

/// Tokens that look like none: the same everywhere.
Tokens tokensOf(const Engine &engine, std::uint64_t seed, std::size_t count) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  Tokens tokens;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tokens.push_back(static_cast<std::int32_t>((state >> 33) % engine.info().vocab_size));
  }
  return tokens;
}

double difference(const Logits &a, const Logits &b) {
  if (a.size() != b.size())
    return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double one = std::abs(double(a[i]) - b[i]);
    largest = std::isnan(one) ? INFINITY : std::max(largest, one);
  }
  return largest;
}

bool isSame(const Logits &a, const Logits &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A batch of sequences of several lengths: prompts together, then some steps of one token each.
Logits runBatch(const Engine &engine) {
  const std::size_t lengths[] = {37, 1, 90};
  std::vector<std::pair<k3rt_sequence, Tokens>> batch;
  for (std::size_t length : lengths)
    batch.push_back({engine.create(), tokensOf(engine, length, length)});
  Logits all = engine.step(batch);
  for (std::uint64_t i = 0; i < 20; ++i) {
    for (std::size_t n = 0; n < batch.size(); ++n)
      batch[n].second = tokensOf(engine, 100 * i + n, 1);
    Logits logits = engine.step(batch);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  for (auto &[sequence, tokens] : batch)
    engine.check(k3rt_sequence_free(engine.get(), sequence));
  return all;
}

/// Goes on with a sequence, one token at a time.
Logits goOn(const Engine &engine, k3rt_sequence sequence, std::uint64_t steps) {
  Logits all;
  for (std::uint64_t i = 0; i < steps; ++i) {
    Logits logits = engine.step({{sequence, tokensOf(engine, 7000 + i, 1)}});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

class Checks {
public:
  explicit Checks(Options given) : options(std::move(given)) {}

  int run() {
    check("open", [&](json &result) {
      gpu = std::make_unique<Engine>(options, options.device, true, false);
      result["seconds"] = gpu->openSeconds;
      k3rt_sequence sequence = gpu->create();
      auto start = std::chrono::steady_clock::now();
      gpu->step({{sequence, tokensOf(*gpu, 1, 32)}});
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      result["first_token_seconds"] = gpu->openSeconds + seconds;
      gpu->check(k3rt_sequence_free(gpu->get(), sequence));
      return true;
    });
    if (gpu) {
      check("memory", [&](json &result) { return checkMemory(result); });
      check("repeats", [&](json &result) { return checkRepeats(result); });
      check("batch", [&](json &result) { return checkBatch(result); });
      check("no_graph", [&](json &result) { return checkSame(result, false, false); });
      check("poison", [&](json &result) { return checkSame(result, true, true); });
      check("poison_no_graph", [&](json &result) { return checkSame(result, false, true); });
      if (options.other != "none") {
        check("from_other", [&](json &result) { return checkExchange(result, true); });
        check("to_other", [&](json &result) { return checkExchange(result, false); });
      }
    }
    json report = {{"artifact", options.artifact}, {"device", options.device}, {"failed", failed}, {"checks", results}};
    if (!options.report.empty())
      std::ofstream(options.report) << report.dump(1) << '\n';
    return failed ? 1 : 0;
  }

private:
  /// A check gives its numbers in `result` and says whether it passed.
  void check(const char *name, const std::function<bool(json &)> &body) {
    json result = {{"name", name}};
    bool pass = false;
    try {
      pass = body(result);
    } catch (const std::exception &e) {
      result["error"] = e.what();
    }
    result["pass"] = pass;
    failed += !pass;
    std::printf("%s %s\n", pass ? "passed" : "FAILED", result.dump().c_str());
    std::fflush(stdout);
    results.push_back(std::move(result));
  }

  bool checkMemory(json &result) {
    k3rt_device_info info{};
    info.size = sizeof info;
    gpu->check(k3rt_device_info_get(gpu->get(), &info));
    std::uint64_t taken = info.open_free_bytes - std::min(info.free_bytes, info.open_free_bytes);
    result.update({{"model", info.model ? info.model : ""},
                   {"planned_bytes", info.planned_bytes},
                   {"allocated_bytes", info.allocated_bytes},
                   {"taken_bytes", taken}});
    // What the driver takes for itself, and rounding of small allocations, do not scale with the model.
    return info.allocated_bytes <= info.planned_bytes * 1.03 + (8 << 20);
  }

  bool checkRepeats(json &result) {
    k3rt_sequence sequence = gpu->create();
    gpu->step({{sequence, tokensOf(*gpu, 2, 61)}});
    k3rt_snapshot snapshot;
    gpu->check(k3rt_sequence_snapshot(gpu->get(), sequence, &snapshot));
    Logits first;
    int same = 0;
    for (int i = 0; i < options.repeats; ++i) {
      gpu->check(k3rt_sequence_restore(gpu->get(), sequence, snapshot));
      Logits logits = goOn(*gpu, sequence, 3), prompt = gpu->step({{sequence, tokensOf(*gpu, 3, 50)}});
      logits.insert(logits.end(), prompt.begin(), prompt.end());
      if (i == 0)
        first = logits;
      same += isSame(first, logits);
    }
    gpu->check(k3rt_snapshot_free(gpu->get(), snapshot));
    gpu->check(k3rt_sequence_free(gpu->get(), sequence));
    result.update({{"runs", options.repeats}, {"same", same}});
    return same == options.repeats;
  }

  bool checkBatch(json &result) {
    auto alone = [&](std::size_t length) {
      k3rt_sequence sequence = gpu->create();
      Logits logits = gpu->step({{sequence, tokensOf(*gpu, length, length)}});
      gpu->check(k3rt_sequence_free(gpu->get(), sequence));
      return logits;
    };
    k3rt_sequence first = gpu->create(), second = gpu->create();
    Logits together = gpu->step({{first, tokensOf(*gpu, 37, 37)}, {second, tokensOf(*gpu, 90, 90)}});
    gpu->check(k3rt_sequence_free(gpu->get(), first));
    gpu->check(k3rt_sequence_free(gpu->get(), second));
    Logits apart = alone(37), more = alone(90);
    apart.insert(apart.end(), more.begin(), more.end());
    double largest = difference(together, apart);
    result["max_abs_logit_error"] = number(largest);
    return largest <= options.tolerance;
  }

  bool checkSame(json &result, bool graph, bool poison) {
    if (reference.empty())
      reference = runBatch(*gpu);
    Engine engine(options, options.device, graph, poison);
    Logits logits = runBatch(engine);
    result["max_abs_logit_error"] = number(difference(reference, logits));
    return isSame(reference, logits);
  }

  bool checkExchange(json &result, bool toGpu) {
    Engine other(options, options.other, true, false);
    const Engine &from = toGpu ? other : *gpu, &to = toGpu ? *gpu : other;
    std::string path =
        std::filesystem::temp_directory_path() / ("k3-gpu-model-" + std::to_string(getpid()) + ".state");
    k3rt_sequence source = from.create(), target = to.create();
    from.step({{source, tokensOf(from, 5, 70)}});
    k3rt_snapshot snapshot;
    from.check(k3rt_sequence_snapshot(from.get(), source, &snapshot));
    from.check(k3rt_snapshot_save(from.get(), snapshot, path.c_str()));
    from.check(k3rt_snapshot_free(from.get(), snapshot));
    to.check(k3rt_snapshot_load(to.get(), path.c_str(), &snapshot));
    std::remove(path.c_str());
    to.check(k3rt_sequence_restore(to.get(), target, snapshot));
    to.check(k3rt_snapshot_free(to.get(), snapshot));
    bool equal = isSame(from.states(source), to.states(target));
    double largest = difference(goOn(from, source, 12), goOn(to, target, 12));
    from.check(k3rt_sequence_free(from.get(), source));
    to.check(k3rt_sequence_free(to.get(), target));
    result.update({{"states_equal", equal}, {"max_abs_logit_error", number(largest)}});
    return equal && largest <= options.tolerance;
  }

  static json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

  Options options;
  std::unique_ptr<Engine> gpu;
  Logits reference;
  int failed = 0;
  json results = json::array();
};

Options parse(int argc, char **argv) {
  Options options;
  auto refuse = [](const std::string &message) {
    std::fprintf(stderr, "k3-gpu-model: %s\n", message.c_str());
    std::exit(2);
  };
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i], name = argument.substr(0, argument.find('='));
    std::string value = name.size() < argument.size() ? argument.substr(name.size() + 1) : "";
    if (name == "--device")
      options.device = value;
    else if (name == "--other")
      options.other = value;
    else if (name == "--weights-dir")
      options.weightsDir = value;
    else if (name == "--json")
      options.report = value;
    else if (name == "--repeats")
      options.repeats = std::atoi(value.c_str());
    else if (name == "--tolerance")
      options.tolerance = std::atof(value.c_str());
    else if (name == "--help") {
      std::fputs(usage, stdout);
      std::exit(0);
    } else if (name.rfind("--", 0) == 0 || !options.artifact.empty())
      refuse("unexpected argument '" + argument + "'; --help tells more");
    else
      options.artifact = argument;
  }
  if (options.artifact.empty() || options.repeats < 1 || !(options.tolerance >= 0))
    refuse("an artifact, at least one repeat and a tolerance are needed; --help tells more");
  return options;
}

} // namespace

int main(int argc, char **argv) { return Checks(parse(argc, argv)).run(); }
