//===- CanaryCommand.cpp - k3-run canary --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// What an operator wants to know before a rollout, measured with this artifact
// on this machine. Everything runs over one list of tokens: a text of the
// user's, or one that the model has written itself.
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"
#include "tools/runtime/k3-run/canary/Report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <ostream>
#include <unistd.h>

namespace k3run {

using namespace canary;

namespace {
using Tokens = std::vector<int32_t>;

/// Positions that drift, routing and outliers are measured at; more would only
/// make the numbers smoother.
constexpr size_t observedTokens = 512;
/// Positions that are run one by one with a rounded state.
constexpr size_t steppedTokens = 64;
constexpr uint64_t prefixCacheBytes = uint64_t(1) << 30;

uint64_t residentMemory() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * uint64_t(sysconf(_SC_PAGESIZE));
}

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

/// Layer outputs and expert choices of the steps while it is attached.
struct Observation {
  std::map<uint32_t, std::vector<float>> outputs; ///< [tokens, width]
  std::map<uint32_t, std::vector<uint64_t>> choices; ///< per expert
  std::map<uint32_t, uint64_t> routedTokens;
  size_t width = 0;

  static void take(void *user, const k3rt_trace_event *event) {
    static_cast<Observation *>(user)->take(*event);
  }

private:
  void take(const k3rt_trace_event &event) {
    constexpr uint32_t f32 = 0, i32 = 4;
    if (event.layer < 0)
      return;
    auto layer = uint32_t(event.layer);
    std::string dispatch = event.dispatch;
    if (dispatch.empty() && event.dtype == f32 && event.rank == 2) {
      const auto *data = static_cast<const float *>(event.data);
      width = size_t(event.shape[1]);
      auto &values = outputs[layer];
      values.insert(values.end(), data,
                    data + size_t(event.shape[0] * event.shape[1]));
    } else if (dispatch.find("route") != std::string::npos &&
               event.dtype == i32 && event.rank == 2) {
      const auto *ids = static_cast<const int32_t *>(event.data);
      auto count = size_t(event.shape[0] * event.shape[1]);
      routedTokens[layer] += uint64_t(event.shape[0]);
      std::vector<uint64_t> &counts = choices[layer];
      for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0)
          continue;
        if (size_t(ids[i]) >= counts.size())
          counts.resize(size_t(ids[i]) + 1);
        ++counts[size_t(ids[i])];
      }
    } else if (dispatch.find("plan") != std::string::npos &&
               event.dtype == i32 && event.rank == 1 && event.shape[0] > 1) {
      // The sorted plan has one range per expert, also for unused ones.
      std::vector<uint64_t> &counts = choices[layer];
      counts.resize(std::max(counts.size(), size_t(event.shape[0] - 1)));
    }
  }
};

class Canary {
public:
  Canary(const Options &options, Streams &streams, std::string &error)
      : options(options), streams(streams), error(error) {}

  bool run();
  const Report &result() const { return report; }

private:
  bool readTokens();
  bool writeOwnText(size_t count);
  bool measureMemory();
  bool measureLatency();
  bool measureReuse();
  bool observe(Engine &engine, Observation &seen, std::vector<float> &logits);
  bool measureRounding(const std::vector<float> &logits);
  bool compare(const std::string &name, const std::string &path);
  void summarize(const Observation &seen);
  void addDrift(const std::string &name, const Observation &base,
                const std::vector<float> &baseLogits, const Observation &other,
                const std::vector<float> &otherLogits, size_t count);

  /// `count` tokens of the text, which is repeated if it is shorter, from
  /// position `from` on.
  Tokens take(uint64_t count, uint64_t from = 0) const {
    Tokens taken;
    for (uint64_t i = 0; i < count; ++i)
      taken.push_back(tokens[(from + i) % tokens.size()]);
    return taken;
  }

  /// Runs `count` tokens in a new sequence.
  bool prefill(const Tokens &input, k3rt_sequence &sequence, double &ms);

  const Options &options;
  Streams &streams;
  std::string &error;
  Engine engine;
  Tokens tokens;
  Observation seen;
  Report report;
};

bool Canary::run() {
  if (!engine.open(options, error))
    return false;
  report.model = engine.info().name;
  report.artifact = options.artifact.path;
  report.compiler = std::string("k3c ") + engine.info().compiler_version;
  report.threads = engine.threads();
  std::vector<float> logits;
  // Memory first: what has been touched once does not show again.
  if (!readTokens() || !measureMemory() || !measureLatency() ||
      !measureReuse() || !observe(engine, seen, logits))
    return false;
  summarize(seen);
  if (!measureRounding(logits))
    return false;
  for (const auto &[name, path] : options.against) {
    Options other = options;
    other.artifact = {path, 0};
    Engine otherEngine;
    Observation otherSeen;
    std::vector<float> otherLogits;
    if (!otherEngine.open(other, error))
      return false;
    if (otherEngine.info().vocab_size != engine.info().vocab_size ||
        otherEngine.info().num_layers != engine.info().num_layers ||
        otherEngine.info().hidden_size != engine.info().hidden_size) {
      error = path + ": not the same model as " + options.artifact.path;
      return false;
    }
    if (!observe(otherEngine, otherSeen, otherLogits))
      return false;
    addDrift(name, seen, logits, otherSeen, otherLogits,
             std::min(tokens.size(), observedTokens));
  }
  report.memory.peakResident = peakMemory();
  return true;
}

bool Canary::readTokens() {
  if (options.textFile.empty()) {
    report.textSource = "a text of its own, seed 1";
    return writeOwnText(observedTokens);
  }
  report.textSource = options.textFile;
  std::string text;
  if (!engine.needTokenizer(error) ||
      !readText(options.textFile, streams.in, text, error))
    return false;
  if (engine.info().bos_token_id >= 0)
    tokens.push_back(engine.info().bos_token_id);
  if (!engine.tokenizer().encode(text, k3rt::AllowSpecial::no, tokens, error)) {
    error = options.textFile + ": " + error;
    return false;
  }
  if (tokens.size() < 2) {
    error = options.textFile + ": too short";
    return false;
  }
  return true;
}

/// The model's own distribution: what it is used on looks like that.
bool Canary::writeOwnText(size_t count) {
  k3rt::SamplerOptions settings;
  settings.seed = 1;
  k3rt::Sampler sampler;
  if (!sampler.init(settings, engine.info().vocab_size, error))
    return false;
  k3rt_sequence sequence = 0;
  if (!engine.createSequence(sequence, error))
    return false;
  tokens.push_back(std::max(engine.info().bos_token_id, 0));
  count = std::min<size_t>(count, engine.info().max_context);
  while (tokens.size() < count) {
    const float *logits = nullptr;
    int32_t id = 0;
    if (!engine.step(sequence, &tokens.back(), 1, logits, error) ||
        !sampler.sample(logits, id, error))
      return false;
    tokens.push_back(id);
  }
  engine.freeSequence(sequence);
  return true;
}

bool Canary::prefill(const Tokens &input, k3rt_sequence &sequence, double &ms) {
  const float *logits = nullptr;
  if (!engine.createSequence(sequence, error))
    return false;
  Clock::time_point start = Clock::now();
  if (!engine.step(sequence, input.data(), input.size(), logits, error))
    return false;
  ms = milliseconds(start);
  return true;
}

bool Canary::measureMemory() {
  k3rt_memory_plan plan = {};
  if (!engine.plan(options, plan, error))
    return false;
  Memory &memory = report.memory;
  memory.weights = plan.weight_bytes;
  memory.arena = plan.arena_bytes;
  memory.pools = plan.state_pool_bytes + plan.kv_pool_bytes;
  memory.plannedPerSequence = plan.state_bytes_per_sequence;
  memory.plannedPerToken = plan.kv_bytes_per_token;

  // The first sequence touches arena and weights, the second one only its own
  // state, and then its cache as it grows.
  uint64_t window = std::min<uint64_t>(engine.info().max_tokens,
                                       engine.info().max_context);
  uint64_t longest = engine.info().max_context;
  k3rt_sequence warm = 0, sequence = 0;
  double ms = 0;
  if (!prefill(take(window), warm, ms))
    return false;
  uint64_t before = residentMemory();
  if (!prefill(take(1), sequence, ms))
    return false;
  uint64_t created = residentMemory();
  memory.measuredPerSequence = double(created) - double(before);
  uint64_t length = 1;
  while (length < longest) {
    const float *logits = nullptr;
    uint64_t count = std::min(window, longest - length);
    Tokens next = take(count, length);
    if (!engine.step(sequence, next.data(), next.size(), logits, error))
      return false;
    length += count;
  }
  if (length > 1)
    memory.measuredPerToken =
        (double(residentMemory()) - double(created)) / double(length - 1);
  engine.freeSequence(warm);
  engine.freeSequence(sequence);
  return true;
}

bool Canary::measureLatency() {
  constexpr int repeats = 3;
  constexpr uint64_t decoded = 16;
  std::vector<uint64_t> contexts = options.contexts;
  if (contexts.empty())
    for (uint64_t context = 16; context + decoded <= engine.info().max_context;
         context *= 4)
      contexts.push_back(context);
  for (uint64_t context : contexts) {
    if (context == 0 || context + decoded > engine.info().max_context) {
      error = "--contexts: " + std::to_string(context) +
              " tokens and " + std::to_string(decoded) +
              " more do not fit into the context of " +
              std::to_string(engine.info().max_context) + " (see --context)";
      return false;
    }
    std::vector<double> first, each;
    for (int i = 0; i < repeats; ++i) {
      k3rt_sequence sequence = 0;
      double ms = 0;
      if (!prefill(take(context), sequence, ms))
        return false;
      first.push_back(ms);
      for (int32_t token : take(decoded, context)) {
        const float *logits = nullptr;
        Clock::time_point start = Clock::now();
        if (!engine.step(sequence, &token, 1, logits, error))
          return false;
        each.push_back(milliseconds(start));
      }
      engine.freeSequence(sequence);
    }
    report.latency.push_back({context, median(first), median(each)});
  }
  return true;
}

bool Canary::measureReuse() {
  constexpr uint64_t requests = 8;
  uint64_t length = std::min<uint64_t>(256, engine.info().max_context);
  uint64_t shared = length * 3 / 4;
  if (shared == 0 || shared == length)
    return true;
  report.reuse.requests = requests;
  report.reuse.promptTokens = length;
  std::vector<double> cold, warm;
  uint64_t asked = 0, reusedAll = 0;
  for (uint64_t i = 0; i < requests; ++i) {
    Tokens prompt = take(shared);
    for (int32_t token : take(length - shared, shared + 7 * i))
      prompt.push_back(token);
    double ms = 0;
    k3rt_sequence alone = 0;
    if (!prefill(prompt, alone, ms))
      return false;
    cold.push_back(ms);
    engine.freeSequence(alone);

    k3rt_sequence sequence = 0;
    uint64_t reused = 0;
    const float *logits = nullptr;
    if (!engine.createSequence(sequence, error))
      return false;
    Clock::time_point start = Clock::now();
    if (!engine.attachPrefix(sequence, prompt, reused, error))
      return false;
    // A server keeps the state at the end of what is shared.
    if (reused < shared) {
      if (!engine.step(sequence, prompt.data() + reused, shared - reused,
                       logits, error) ||
          !engine.storePrefix(sequence, error))
        return false;
      asked += length;
      reusedAll += reused;
      reused = shared;
      if (!engine.step(sequence, prompt.data() + reused, length - reused,
                       logits, error))
        return false;
    } else {
      if (!engine.step(sequence, prompt.data() + reused, length - reused,
                       logits, error))
        return false;
      warm.push_back(milliseconds(start));
      asked += length;
      reusedAll += reused;
    }
    engine.freeSequence(sequence);
  }
  report.reuse.rate = double(reusedAll) / double(asked);
  report.reuse.coldFirstTokenMs = median(cold);
  report.reuse.warmFirstTokenMs = warm.empty() ? NAN : median(warm);
  return true;
}

bool Canary::observe(Engine &which, Observation &into,
                     std::vector<float> &logits) {
  size_t count = std::min({tokens.size(), observedTokens,
                           size_t(which.info().max_context)});
  size_t vocab = which.info().vocab_size;
  k3rt_sequence sequence = 0;
  if (!which.createSequence(sequence, error) ||
      !which.setTrace(Observation::take, &into, error))
    return false;
  bool done = which.stepAll(
      sequence, tokens.data(), count,
      [&](size_t, const float *row) {
        logits.insert(logits.end(), row, row + vocab);
      },
      error);
  which.freeSequence(sequence);
  return which.setTrace(nullptr, nullptr, error) && done;
}

void Canary::summarize(const Observation &from) {
  for (const auto &[layer, counts] : from.choices)
    report.routing.push_back({layer, from.routedTokens.at(layer),
                              counts.size(), loadSkew(counts)});
  for (const auto &[layer, values] : from.outputs)
    report.outliers.push_back(
        {layer,
         outliers(values.data(), values.size() / from.width, from.width)});
}

void Canary::addDrift(const std::string &name, const Observation &base,
                      const std::vector<float> &baseLogits,
                      const Observation &other,
                      const std::vector<float> &otherLogits, size_t count) {
  Drift drift;
  drift.name = name;
  drift.tokens = count;
  for (const auto &[layer, values] : base.outputs) {
    const auto &others = other.outputs.at(layer);
    drift.layerErrors.push_back(
        relativeError(others.data(), values.data(), count * base.width));
  }
  size_t vocab = engine.info().vocab_size, equal = 0;
  for (size_t i = 0; i < count; ++i) {
    const float *a = baseLogits.data() + i * vocab;
    const float *b = otherLogits.data() + i * vocab;
    drift.meanKl += klDivergence(a, b, vocab) / double(count);
    equal += argmax(a, vocab) == argmax(b, vocab);
  }
  drift.greedyAgreement = double(equal) / double(count);
  report.drift.push_back(std::move(drift));
}

/// The same tokens one by one, with all recurrent states rounded to bf16 after
/// each.
bool Canary::measureRounding(const std::vector<float> &logits) {
  size_t count = std::min({tokens.size(), steppedTokens,
                           size_t(engine.info().max_context)});
  Observation rounded;
  std::vector<float> roundedLogits;
  k3rt_sequence sequence = 0;
  if (!engine.createSequence(sequence, error) ||
      !engine.setTrace(Observation::take, &rounded, error))
    return false;
  for (size_t i = 0; i < count; ++i) {
    const float *row = nullptr;
    if (!engine.step(sequence, &tokens[i], 1, row, error))
      return false;
    roundedLogits.insert(roundedLogits.end(), row,
                         row + engine.info().vocab_size);
    for (uint32_t layer = 0; layer < engine.info().num_layers; ++layer) {
      std::vector<float> state;
      // Layers with attention have none.
      if (!engine.findState(sequence, layer, "kda", state))
        continue;
      for (float &value : state)
        value = roundToBf16(value);
      if (!engine.writeState(sequence, layer, "kda", state, error))
        return false;
    }
  }
  engine.freeSequence(sequence);
  if (!engine.setTrace(nullptr, nullptr, error))
    return false;
  addDrift("bf16 state", seen, logits, rounded, roundedLogits, count);
  return true;
}
} // namespace

bool runCanary(const Options &given, Streams &streams, std::string &error) {
  Options options = given;
  options.maxSequences = 4;
  options.prefixCacheBytes = prefixCacheBytes;
  Canary canary(options, streams, error);
  if (!canary.run())
    return false;
  if (!options.htmlFile.empty()) {
    std::ofstream file(options.htmlFile, std::ios::binary);
    file << toHtml(canary.result());
    file.close();
    if (!file) {
      error = options.htmlFile + ": cannot write";
      return false;
    }
  }
  streams.out << (options.json ? toJson(canary.result()) + "\n"
                               : toText(canary.result()));
  return true;
}

} // namespace k3run
