//===- VerifyCommand.cpp - k3-run verify --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"
#include "tools/runtime/k3-run/Golden.h"
#include "tools/runtime/k3-run/LogProbability.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

namespace k3run {

namespace {
/// Keeps the larger one; NaN counts as larger than all.
void raise(double &worst, double value) {
  if (!std::isnan(worst) && !(value <= worst))
    worst = value;
}

/// |a - b| / |b| in the Euclidean norm.
double relativeError(const float *a, const float *b, size_t count) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < count; ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// What the engine computed inside the layers, rows of all steps in order.
struct Recorder {
  struct Rows {
    int64_t width = 0;
    std::vector<float> floats;
    std::vector<int32_t> ids;
  };
  std::map<int32_t, Rows> hidden;
  std::map<int32_t, Rows> experts;

  static void record(void *user, const k3rt_trace_event *event) {
    static_cast<Recorder *>(user)->take(*event);
  }

  void take(const k3rt_trace_event &event) {
    constexpr uint32_t f32 = 0, i32 = 4;
    if (event.layer < 0 || event.rank != 2)
      return;
    size_t count = static_cast<size_t>(event.shape[0] * event.shape[1]);
    std::string buffer = event.buffer, dispatch = event.dispatch;
    if (buffer == "out" && dispatch.empty() && event.dtype == f32) {
      const float *data = static_cast<const float *>(event.data);
      Rows &rows = hidden[event.layer];
      rows.width = event.shape[1];
      rows.floats.insert(rows.floats.end(), data, data + count);
    } else if (dispatch.find("route") != std::string::npos &&
               event.dtype == i32) {
      const int32_t *data = static_cast<const int32_t *>(event.data);
      Rows &rows = experts[event.layer];
      rows.width = event.shape[1];
      rows.ids.insert(rows.ids.end(), data, data + count);
    }
  }
};

class Verifier {
public:
  Verifier(const Options &options, std::string &error)
      : options(options), error(error) {}

  bool run();
  bool passed() const;
  double meanLogitError() const {
    return logitCount ? logitErrorSum / double(logitCount) : 0;
  }
  nlohmann::ordered_json json() const;
  std::string report() const;
  std::string failure() const;

private:
  bool fail(std::string text) {
    error = options.goldenFile + ": " + std::move(text);
    return false;
  }
  bool prompt(const std::string &name);
  bool logits(const std::string &name, const std::vector<int32_t> &ids,
              k3rt_sequence sequence, std::vector<float> &last);
  bool likeliestTokens(const std::string &name, size_t length,
                       std::vector<int64_t> &tokens);
  bool hidden(const std::string &name, size_t length,
              const Recorder &recorder);
  bool router(const std::string &name, size_t length,
              const Recorder &recorder);
  bool states(const std::string &name, size_t length, k3rt_sequence sequence);
  bool compareState(const std::string &golden, uint32_t layer,
                    const char *state, k3rt_sequence sequence);
  bool cacheState(const std::string &golden, uint32_t layer, size_t length,
                  k3rt_sequence sequence);
  bool greedy(const std::string &name, k3rt_sequence sequence,
              std::vector<float> last);
  bool loss(const std::string &name);
  bool tokenIds(const std::string &name, std::vector<int32_t> &ids);

  const Options &options;
  std::string &error;
  Golden golden;
  Engine engine;

  double logitError = 0, stateError = 0, lossDifference = 0;
  double logitErrorSum = 0;
  uint64_t logitCount = 0;
  /// How many positions of a prompt have a golden likeliest token, and at how many it is ours.
  struct Likeliest {
    std::string prompt;
    uint64_t equal = 0, positions = 0;
  };
  std::vector<Likeliest> likeliestOf;
  bool anyLogits = false, anyLoss = false, anyStates = false, anyGreedy = false;
  bool greedyMatch = true;
  uint64_t routerMismatches = 0, routerChoices = 0;
  std::map<uint32_t, double> layerErrors;
};

bool Verifier::tokenIds(const std::string &name, std::vector<int32_t> &ids) {
  Golden::Integers read;
  if (!golden.read(name + ".input_ids", 1, read, error))
    return false;
  for (int64_t id : read.values) {
    if (id < 0 || id >= engine.info().vocab_size)
      return fail(name + ".input_ids has id " + std::to_string(id) +
                  ", the model's vocabulary is " +
                  std::to_string(engine.info().vocab_size));
    ids.push_back(static_cast<int32_t>(id));
  }
  if (ids.empty())
    return fail(name + ".input_ids is empty");
  return true;
}

/// The golden likeliest token of every position: P.argmax, which is there where not all positions have logits.
bool Verifier::likeliestTokens(const std::string &name, size_t length,
                               std::vector<int64_t> &tokens) {
  if (!golden.has(name + ".argmax"))
    return true;
  Golden::Integers read;
  if (!golden.read(name + ".argmax", 1, read, error))
    return false;
  if (read.values.size() != length)
    return fail(name + ".argmax has " + std::to_string(read.values.size()) +
                " positions of " + std::to_string(length) + " tokens");
  tokens = std::move(read.values);
  return true;
}

bool Verifier::logits(const std::string &name, const std::vector<int32_t> &ids,
                      k3rt_sequence sequence, std::vector<float> &last) {
  Golden::Floats wanted;
  if (!golden.read(name + ".logits", 2, wanted, error))
    return false;
  std::vector<int64_t> positions;
  if (golden.has(name + ".logit_positions")) {
    Golden::Integers read;
    if (!golden.read(name + ".logit_positions", 1, read, error))
      return false;
    positions = std::move(read.values);
  } else {
    for (size_t i = 0; i < ids.size(); ++i)
      positions.push_back(static_cast<int64_t>(i));
  }
  size_t vocab = engine.info().vocab_size;
  if (wanted.shape[0] != static_cast<int64_t>(positions.size()) ||
      wanted.shape[1] != static_cast<int64_t>(vocab))
    return fail(name + ".logits is [" + std::to_string(wanted.shape[0]) + ", " +
                std::to_string(wanted.shape[1]) + "], wanted [" +
                std::to_string(positions.size()) + ", " +
                std::to_string(vocab) + "]");
  for (int64_t position : positions)
    if (position < 0 || position >= static_cast<int64_t>(ids.size()))
      return fail(name + ".logit_positions has " + std::to_string(position) +
                  " of " + std::to_string(ids.size()) + " tokens");
  std::multimap<size_t, size_t> rowsAt;
  for (size_t row = 0; row < positions.size(); ++row)
    rowsAt.insert({static_cast<size_t>(positions[row]), row});
  std::vector<int64_t> wantedTokens;
  if (!likeliestTokens(name, ids.size(), wantedTokens))
    return false;
  anyLogits = true;
  likeliestOf.push_back({name});
  Likeliest &count = likeliestOf.back();
  return engine.stepAll(
      sequence, ids.data(), ids.size(),
      [&](size_t i, const float *got) {
        int32_t token = likeliest(got, vocab);
        if (!wantedTokens.empty()) {
          ++count.positions;
          count.equal += token == wantedTokens[i];
        }
        auto [first, end] = rowsAt.equal_range(i);
        for (auto it = first; it != end; ++it) {
          const float *row = &wanted.values[it->second * vocab];
          for (size_t j = 0; j < vocab; ++j) {
            double difference = std::fabs(double(got[j]) - row[j]);
            raise(logitError, difference);
            logitErrorSum += difference;
          }
          logitCount += vocab;
          if (wantedTokens.empty()) {
            ++count.positions;
            count.equal += token == likeliest(row, vocab);
          }
        }
        if (i + 1 == ids.size())
          last.assign(got, got + vocab);
      },
      error);
}

bool Verifier::hidden(const std::string &name, size_t length,
                      const Recorder &recorder) {
  uint32_t layers = engine.info().num_layers;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    // Either the output of each layer, or the input of the next one.
    std::string tensor = name + ".layers." + std::to_string(layer) + ".out";
    if (!golden.has(tensor)) {
      tensor = name + ".hidden_states." + std::to_string(layer + 1);
      if (layer + 1 == layers || !golden.has(tensor))
        continue;
    }
    Golden::Floats wanted;
    if (!golden.read(tensor, 2, wanted, error))
      return false;
    auto got = recorder.hidden.find(static_cast<int32_t>(layer));
    if (wanted.shape[0] != static_cast<int64_t>(length) ||
        wanted.shape[1] != engine.info().hidden_size)
      return fail(tensor + " does not have one row of " +
                  std::to_string(engine.info().hidden_size) + " per token");
    if (got == recorder.hidden.end() ||
        got->second.floats.size() != wanted.values.size())
      return fail("the engine did not give the hidden state of layer " +
                  std::to_string(layer) + " for " + tensor);
    raise(layerErrors[layer],
          relativeError(got->second.floats.data(), wanted.values.data(),
                        wanted.values.size()));
  }
  return true;
}

bool Verifier::router(const std::string &name, size_t length,
                      const Recorder &recorder) {
  for (uint32_t layer = 0; layer < engine.info().num_layers; ++layer) {
    std::string prefix = name + ".layers." + std::to_string(layer) + ".router_";
    if (!golden.has(prefix + "ids"))
      continue;
    Golden::Integers wanted;
    Golden::Floats margin;
    if (!golden.read(prefix + "ids", 2, wanted, error) ||
        !golden.read(prefix + "margin", 1, margin, error))
      return false;
    size_t count = static_cast<size_t>(wanted.shape[1]);
    if (wanted.shape[0] != static_cast<int64_t>(length) ||
        margin.values.size() != length)
      return fail(prefix + "ids does not have one row per token");
    auto got = recorder.experts.find(static_cast<int32_t>(layer));
    if (got == recorder.experts.end() ||
        got->second.ids.size() != wanted.values.size())
      return fail("the engine did not give the expert choices of layer " +
                  std::to_string(layer) + " for " + prefix + "ids");
    for (size_t row = 0; row < length; ++row) {
      // Within the margin another choice is rounding, not a fault.
      if (margin.values[row] <= options.routerMargin)
        continue;
      ++routerChoices;
      std::vector<int64_t> a(
          wanted.values.begin() + static_cast<ptrdiff_t>(row * count),
          wanted.values.begin() + static_cast<ptrdiff_t>((row + 1) * count));
      std::vector<int64_t> b(
          got->second.ids.begin() + static_cast<ptrdiff_t>(row * count),
          got->second.ids.begin() + static_cast<ptrdiff_t>((row + 1) * count));
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      routerMismatches += a != b;
    }
  }
  return true;
}

bool Verifier::compareState(const std::string &tensor, uint32_t layer,
                            const char *state, k3rt_sequence sequence) {
  bool isKda = std::string(state) == "kda";
  Golden::Floats wanted;
  std::vector<float> got;
  if (!golden.read(tensor, isKda ? 3 : 2, wanted, error) ||
      !engine.readState(sequence, layer, state, wanted.values.size(), got,
                        error))
    return false;
  anyStates = true;
  if (!isKda) {
    for (size_t i = 0; i < got.size(); ++i)
      raise(stateError, std::fabs(double(got[i]) - wanted.values[i]));
    return true;
  }
  // Golden [head, key, value], engine [head, value, key].
  size_t keys = static_cast<size_t>(wanted.shape[1]);
  size_t values = static_cast<size_t>(wanted.shape[2]);
  for (size_t head = 0; head < static_cast<size_t>(wanted.shape[0]); ++head)
    for (size_t key = 0; key < keys; ++key)
      for (size_t value = 0; value < values; ++value)
        raise(stateError,
              std::fabs(double(got[(head * values + value) * keys + key]) -
                        wanted.values[(head * keys + key) * values + value]));
  return true;
}

bool Verifier::cacheState(const std::string &prefix, uint32_t layer,
                          size_t length, k3rt_sequence sequence) {
  Golden::Floats latent, rope;
  if (!golden.read(prefix + "c", 2, latent, error) ||
      !golden.read(prefix + "r", 2, rope, error))
    return false;
  if (latent.shape[0] != static_cast<int64_t>(length) ||
      rope.shape[0] != static_cast<int64_t>(length))
    return fail(prefix + "c and r do not have one row per token");
  size_t c = static_cast<size_t>(latent.shape[1]);
  size_t r = static_cast<size_t>(rope.shape[1]);
  std::vector<float> got;
  if (!engine.readState(sequence, layer, "kv", length * (c + r), got, error))
    return false;
  anyStates = true;
  for (size_t row = 0; row < length; ++row) {
    const float *values = &got[row * (c + r)];
    for (size_t i = 0; i < c; ++i)
      raise(stateError, std::fabs(double(values[i]) - latent.values[row * c + i]));
    for (size_t i = 0; i < r; ++i)
      raise(stateError,
            std::fabs(double(values[c + i]) - rope.values[row * r + i]));
  }
  return true;
}

bool Verifier::states(const std::string &name, size_t length,
                      k3rt_sequence sequence) {
  for (uint32_t layer = 0; layer < engine.info().num_layers; ++layer) {
    std::string prefix = name + ".state." + std::to_string(layer);
    if (golden.has(prefix + ".kda.S") &&
        !compareState(prefix + ".kda.S", layer, "kda", sequence))
      return false;
    for (const char *conv : {"conv_q", "conv_k", "conv_v"})
      if (golden.has(prefix + ".kda." + conv) &&
          !compareState(prefix + ".kda." + conv, layer, conv, sequence))
        return false;
    if (golden.has(prefix + ".mla.c") &&
        !cacheState(prefix + ".mla.", layer, length, sequence))
      return false;
  }
  return true;
}

bool Verifier::greedy(const std::string &name, k3rt_sequence sequence,
                      std::vector<float> last) {
  if (!golden.has(name + ".greedy"))
    return true;
  Golden::Integers wanted;
  if (!golden.read(name + ".greedy", 1, wanted, error))
    return false;
  anyGreedy = true;
  const float *logits = last.data();
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    int32_t id = likeliest(logits, engine.info().vocab_size);
    if (id != wanted.values[i]) {
      greedyMatch = false;
      return true;
    }
    if (i + 1 < wanted.values.size() &&
        !engine.step(sequence, &id, 1, logits, error))
      return false;
  }
  return true;
}

bool Verifier::loss(const std::string &name) {
  std::vector<int32_t> ids;
  Golden::Floats wanted;
  if (!tokenIds(name, ids) || !golden.read(name + ".loss", 0, wanted, error))
    return false;
  if (ids.size() < 2)
    return fail(name + ".input_ids is too short for a loss");
  k3rt_sequence sequence = 0;
  if (!engine.createSequence(sequence, error))
    return false;
  double nats = 0;
  bool done = engine.stepAll(
      sequence, ids.data(), ids.size() - 1,
      [&](size_t i, const float *got) {
        nats -= logProbability(got, engine.info().vocab_size, ids[i + 1]);
      },
      error);
  engine.freeSequence(sequence);
  anyLoss = true;
  raise(lossDifference,
        std::fabs(nats / static_cast<double>(ids.size() - 1) -
                  wanted.values.at(0)));
  return done;
}

bool Verifier::prompt(const std::string &name) {
  std::vector<int32_t> ids;
  if (!tokenIds(name, ids))
    return false;
  k3rt_sequence sequence = 0;
  if (!engine.createSequence(sequence, error))
    return false;
  Recorder recorder;
  std::vector<float> last;
  bool done =
      engine.setTrace(&Recorder::record, &recorder, error) &&
      logits(name, ids, sequence, last) &&
      engine.setTrace(nullptr, nullptr, error) &&
      hidden(name, ids.size(), recorder) &&
      router(name, ids.size(), recorder) &&
      states(name, ids.size(), sequence) && greedy(name, sequence, last);
  engine.freeSequence(sequence);
  return done;
}

bool Verifier::run() {
  if (!golden.open(options.goldenFile, error) || !engine.open(options, error))
    return false;
  for (const std::string &name : golden.prompts()) {
    if (golden.has(name + ".logits") && !prompt(name))
      return false;
    if (golden.has(name + ".loss") && !loss(name))
      return false;
  }
  if (!anyLogits)
    return fail("no golden values: no P.input_ids with P.logits");
  return true;
}

bool Verifier::passed() const { return failure().empty(); }

std::string Verifier::failure() const {
  auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.3g", value);
    return std::string(text);
  };
  if (options.roundedActivations) {
    // Of fewer positions than `enough` the share allows none to differ.
    constexpr uint64_t enough = 40;
    constexpr double lossTolerance = 5e-3;
    if (!(meanLogitError() <= options.meanTolerance))
      return "logits differ by " + number(meanLogitError()) +
             " in the mean, allowed " + number(options.meanTolerance);
    for (const Likeliest &count : likeliestOf)
      if (count.positions >= enough &&
          double(count.equal) < options.likeliestShare * double(count.positions))
        return "the most likely token is another one at " +
               std::to_string(count.positions - count.equal) + " of " +
               std::to_string(count.positions) + " positions of " +
               count.prompt;
    if (!(lossDifference <= lossTolerance))
      return "loss differs by " + number(lossDifference) + ", allowed " +
             number(lossTolerance);
    return "";
  }
  if (!(logitError <= options.logitTolerance))
    return "logits differ by " + number(logitError) + ", allowed " +
           number(options.logitTolerance);
  for (const auto &[layer, value] : layerErrors)
    if (!(value <= options.layerTolerance))
      return "layer " + std::to_string(layer) + " differs by " +
             number(value) + " relative, allowed " +
             number(options.layerTolerance);
  if (routerMismatches != 0)
    return std::to_string(routerMismatches) + " of " +
           std::to_string(routerChoices) + " expert choices differ";
  if (!(stateError <= options.stateTolerance))
    return "states differ by " + number(stateError) + ", allowed " +
           number(options.stateTolerance);
  if (!greedyMatch)
    return "greedy tokens differ";
  if (!(lossDifference <= options.lossTolerance))
    return "loss differs by " + number(lossDifference) + ", allowed " +
           number(options.lossTolerance);
  return "";
}

nlohmann::ordered_json Verifier::json() const {
  nlohmann::ordered_json json;
  json["pass"] = passed();
  json["max_abs_logit_error"] = logitError;
  json["router_mismatches"] = routerMismatches;
  // null: the file has no such values.
  json["greedy_match"] = nullptr;
  if (anyGreedy)
    json["greedy_match"] = greedyMatch;
  json["loss_difference"] = nullptr;
  if (anyLoss)
    json["loss_difference"] = lossDifference;
  json["max_abs_state_error"] = nullptr;
  if (anyStates)
    json["max_abs_state_error"] = stateError;
  json["router_choices"] = routerChoices;
  json["mean_abs_logit_error"] = meanLogitError();
  json["likeliest"] = nlohmann::ordered_json::array();
  for (const Likeliest &count : likeliestOf)
    json["likeliest"].push_back({{"prompt", count.prompt},
                                 {"positions", count.positions},
                                 {"equal", count.equal}});
  json["layers"] = nlohmann::ordered_json::array();
  for (const auto &[layer, value] : layerErrors)
    json["layers"].push_back({{"layer", layer}, {"rel_error", value}});
  return json;
}

std::string Verifier::report() const {
  char line[512];
  double worstLayer = 0;
  for (const auto &[layer, value] : layerErrors)
    raise(worstLayer, value);
  std::snprintf(line, sizeof(line),
                "%s: logits %.3g, %zu layers %.3g relative, states %.3g, %llu "
                "of %llu expert choices differ, greedy tokens %s, loss %.3g\n",
                passed() ? "pass" : "FAIL", logitError, layerErrors.size(),
                worstLayer, stateError,
                static_cast<unsigned long long>(routerMismatches),
                static_cast<unsigned long long>(routerChoices),
                greedyMatch ? "equal" : "differ", lossDifference);
  return line;
}
} // namespace

bool runVerify(const Options &options, Streams &streams, std::string &error) {
  Verifier verifier(options, error);
  if (!verifier.run())
    return false;
  if (options.json)
    streams.out << verifier.json().dump() << '\n';
  else
    streams.out << verifier.report();
  if (!verifier.passed()) {
    error = options.goldenFile + ": " + verifier.failure();
    return false;
  }
  return true;
}

} // namespace k3run
