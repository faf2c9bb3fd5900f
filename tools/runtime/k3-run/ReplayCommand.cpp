//===- ReplayCommand.cpp - k3-run replay --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace k3run {

namespace {
using Json = nlohmann::ordered_json;

/// A sequence of the step.
struct Replayed {
  std::string stateFile; ///< empty: it had seen no token
  uint64_t length = 0;
  uint64_t logitRows = 0;
  std::vector<int32_t> tokens;
};

/// step.json, of which nothing is trusted.
bool readStep(const std::string &folder, std::istream &in,
              std::vector<Replayed> &sequences, std::string &error) {
  std::string path = folder + "/step.json", text;
  if (!readText(path, in, text, error))
    return false;
  Json step = Json::parse(text, nullptr, false);
  auto isCount = [](const Json &object, const char *name) {
    return object.contains(name) && object[name].is_number_unsigned() &&
           object[name].get<uint64_t>() <= INT32_MAX;
  };
  bool good = step.is_object() && isCount(step, "version") &&
              step["version"] == 1 && step.contains("sequences") &&
              step["sequences"].is_array();
  for (size_t i = 0; good && i < step["sequences"].size(); ++i) {
    const Json &from = step["sequences"][i];
    good = from.is_object() && isCount(from, "length") &&
           isCount(from, "logit_rows") && from.contains("tokens") &&
           from["tokens"].is_array() && from.contains("state");
    Replayed one;
    for (size_t t = 0; good && t < from["tokens"].size(); ++t) {
      const Json &token = from["tokens"][t];
      good = token.is_number_unsigned() && token.get<uint64_t>() <= INT32_MAX;
      if (good)
        one.tokens.push_back(token.get<int32_t>());
    }
    if (!good)
      break;
    one.length = from["length"].get<uint64_t>();
    one.logitRows = from["logit_rows"].get<uint64_t>();
    good = from["state"].is_null() == (one.length == 0) &&
           (from["state"].is_null() || from["state"].is_string());
    if (good && one.length != 0)
      one.stateFile = folder + "/" + from["state"].get<std::string>();
    sequences.push_back(std::move(one));
  }
  if (!good || sequences.empty()) {
    error = path + ": not a step that --trap-nonfinite wrote";
    return false;
  }
  return true;
}

bool restore(Engine &engine, const Replayed &from, k3rt_sequence &sequence,
             std::string &error) {
  if (!engine.createSequence(sequence, error))
    return false;
  if (from.stateFile.empty())
    return true;
  k3rt_snapshot snapshot = 0;
  return engine.check(k3rt_snapshot_load(engine.handle(),
                                         from.stateFile.c_str(), &snapshot),
                      error) &&
         engine.check(
             k3rt_sequence_restore(engine.handle(), sequence, snapshot),
             error) &&
         engine.check(k3rt_snapshot_free(engine.handle(), snapshot), error);
}
} // namespace

bool runReplay(const Options &options, Streams &streams, std::string &error) {
  std::vector<Replayed> sequences;
  if (!readStep(options.dumpFolder, streams.in, sequences, error))
    return false;
  Options adjusted = options;
  adjusted.maxSequences = static_cast<uint32_t>(sequences.size());
  for (const Replayed &one : sequences)
    adjusted.context =
        std::max<uint64_t>(adjusted.context, one.length + one.tokens.size());
  Engine engine;
  if (!engine.open(adjusted, error))
    return false;
  std::vector<k3rt_batch_row> rows;
  for (const Replayed &one : sequences) {
    k3rt_sequence sequence = 0;
    if (!restore(engine, one, sequence, error))
      return false;
    bool all = one.logitRows > 1 || one.tokens.size() == one.logitRows;
    rows.push_back({sequence, one.tokens.data(), one.tokens.size(),
                    one.logitRows == 0 ? -1 : all});
  }
  k3rt_batch batch = {rows.data(), static_cast<uint32_t>(rows.size())};
  k3rt_step_result result = {};
  k3rt_status status = k3rt_step(engine.handle(), &batch, &result);
  if (status != K3RT_NON_FINITE && !engine.check(status, error))
    return false;
  bool reproduced = status == K3RT_NON_FINITE;
  std::string found = reproduced ? k3rt_last_error(engine.handle())
                                 : "every value is finite";
  if (options.json) {
    Json json;
    json["reproduced"] = reproduced;
    json["found"] = found;
    streams.out << json.dump(-1, ' ', false, Json::error_handler_t::replace)
                << '\n';
  } else {
    streams.out << (reproduced ? "reproduced: " : "not reproduced: ") << found
                << '\n';
  }
  if (!reproduced)
    error = "the step does not go wrong with this artifact";
  return reproduced;
}

} // namespace k3run
