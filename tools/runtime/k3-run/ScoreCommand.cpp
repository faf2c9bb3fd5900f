//===- ScoreCommand.cpp - k3-run score ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"
#include "tools/runtime/k3-run/LogProbability.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

namespace k3run {

bool runScore(const Options &options, Streams &streams, std::string &error) {
  Engine engine;
  if (!engine.open(options, error) || !engine.needTokenizer(error))
    return false;
  std::string text;
  if (!readText(options.textFile, streams.in, text, error))
    return false;
  std::vector<int32_t> tokens;
  if (!engine.tokenizer().encode(text, k3rt::AllowSpecial::no, tokens, error)) {
    error = options.textFile + ": " + error;
    return false;
  }
  int32_t begin = engine.info().bos_token_id;
  bool hasBegin = options.beginToken && begin >= 0;
  if (tokens.size() + hasBegin < 2) {
    error = options.textFile + ": too short to score, nothing is predicted";
    return false;
  }

  // Windows as long as the context, each after a begin token. The last token of
  // a window is predicted but need not be fed.
  uint64_t room = std::max<uint64_t>(engine.info().max_context, 1);
  double nats = 0;
  size_t predicted = 0, windows = 0;
  for (size_t start = 0; start < tokens.size(); ++windows) {
    std::vector<int32_t> window;
    if (hasBegin)
      window.push_back(begin);
    size_t count = std::min<size_t>(room + 1 - window.size(),
                                    tokens.size() - start);
    window.insert(window.end(), tokens.begin() + static_cast<ptrdiff_t>(start),
                  tokens.begin() + static_cast<ptrdiff_t>(start + count));
    start += count;
    if (window.size() < 2)
      break;
    k3rt_sequence sequence = 0;
    if (!engine.createSequence(sequence, error))
      return false;
    bool done = engine.stepAll(
        sequence, window.data(), window.size() - 1,
        [&](size_t i, const float *logits) {
          nats -= logProbability(logits, engine.info().vocab_size,
                                 window[i + 1]);
        },
        error);
    engine.freeSequence(sequence);
    if (!done)
      return false;
    predicted += window.size() - 1;
  }
  double perToken = nats / static_cast<double>(predicted);
  double perByte = nats / std::log(2.0) / static_cast<double>(text.size());
  if (!std::isfinite(perToken)) {
    error = options.textFile + ": the loss is not finite";
    return false;
  }
  if (!options.json) {
    char line[256];
    std::snprintf(line, sizeof(line),
                  "%.4f nats per token, %.4f bits per byte (%zu tokens, %zu "
                  "bytes%s)\n",
                  perToken, perByte, predicted, text.size(),
                  windows > 1
                      ? (", " + std::to_string(windows) + " windows").c_str()
                      : "");
    streams.out << line;
    return true;
  }
  nlohmann::ordered_json json;
  json["nats_per_token"] = perToken;
  json["bits_per_byte"] = perByte;
  json["tokens"] = predicted;
  json["bytes"] = text.size();
  json["windows"] = windows;
  streams.out << json.dump() << '\n';
  return true;
}

} // namespace k3run
