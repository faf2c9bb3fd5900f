//===- Report.cpp - a canary report as text and JSON --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/canary/Report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace k3run::canary {

namespace {
class Lines {
public:
  __attribute__((format(printf, 2, 3))) void add(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    text += line;
    text += '\n';
  }
  std::string text;
};

using Json = nlohmann::ordered_json;

/// null where a value is not finite, which JSON cannot say.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
} // namespace

std::string toText(const Report &r) {
  Lines out;
  out.add("%s, %u threads, on %s", r.model.c_str(), r.threads,
          r.textSource.c_str());
  out.add("\nmemory");
  out.add("  weights %.1f MB, scratch %.1f MB, pools %.1f MB, peak resident "
          "%.1f MB",
          r.memory.weights * 1e-6, r.memory.arena * 1e-6, r.memory.pools * 1e-6,
          r.memory.peakResident * 1e-6);
  out.add("  per sequence %llu B planned, %.0f B measured; per token %llu B "
          "planned, %.1f B measured",
          static_cast<unsigned long long>(r.memory.plannedPerSequence),
          r.memory.measuredPerSequence,
          static_cast<unsigned long long>(r.memory.plannedPerToken),
          r.memory.measuredPerToken);
  out.add("\ncontext      first token    per token");
  for (const Latency &each : r.latency)
    out.add("%7llu   %9.2f ms  %9.3f ms",
            static_cast<unsigned long long>(each.context), each.firstTokenMs,
            each.perTokenMs);
  if (std::isfinite(r.reuse.warmFirstTokenMs))
    out.add("\nprefix cache: %llu requests of %llu tokens that share 75%%: "
            "%.1f%% of tokens reused, first token %.2f ms instead of %.2f ms",
            static_cast<unsigned long long>(r.reuse.requests),
            static_cast<unsigned long long>(r.reuse.promptTokens),
            100 * r.reuse.rate, r.reuse.warmFirstTokenMs,
            r.reuse.coldFirstTokenMs);
  else
    out.add("\nprefix cache: nothing could be reused");
  if (!r.routing.empty()) {
    out.add("\nlayer   experts  unused  max/mean  variation  entropy");
    for (const Routing &each : r.routing)
      out.add("%5u %9llu %7llu %9.2f %10.3f %8.4f", each.layer,
              static_cast<unsigned long long>(each.experts),
              static_cast<unsigned long long>(each.skew.unused),
              each.skew.maxOverMean, each.skew.variation, each.skew.entropy);
  }
  for (const Drift &each : r.drift) {
    double worst = 0;
    for (double error : each.layerErrors)
      worst = std::max(worst, error);
    out.add("\n%s: worst layer %.2e relative, KL %.2e nats, greedy tokens "
            "equal at %.1f%% of %llu positions",
            each.name.c_str(), worst, each.meanKl, 100 * each.greedyAgreement,
            static_cast<unsigned long long>(each.tokens));
  }
  out.add("\nlayer   max/rms  kurtosis  MXFP4 error  MXFP8 error");
  for (const LayerOutliers &each : r.outliers)
    out.add("%5u %9.1f %9.1f %11.3f%% %11.3f%%", each.layer,
            each.values.maxOverRms, each.values.kurtosis,
            100 * each.values.mxfp4Error, 100 * each.values.mxfp8Error);
  return out.text;
}

std::string toJson(const Report &r) {
  Json json;
  json["model"] = r.model;
  json["artifact"] = r.artifact;
  json["compiler"] = r.compiler;
  json["text"] = r.textSource;
  json["threads"] = r.threads;
  json["memory"] = {
      {"weight_bytes", r.memory.weights},
      {"arena_bytes", r.memory.arena},
      {"pool_bytes", r.memory.pools},
      {"planned_bytes_per_sequence", r.memory.plannedPerSequence},
      {"measured_bytes_per_sequence", number(r.memory.measuredPerSequence)},
      {"planned_bytes_per_token", r.memory.plannedPerToken},
      {"measured_bytes_per_token", number(r.memory.measuredPerToken)},
      {"peak_rss_bytes", r.memory.peakResident}};
  json["latency"] = Json::array();
  for (const Latency &each : r.latency)
    json["latency"].push_back({{"context", each.context},
                               {"first_token_ms", number(each.firstTokenMs)},
                               {"per_token_ms", number(each.perTokenMs)}});
  json["routing"] = Json::array();
  for (const Routing &each : r.routing)
    json["routing"].push_back({{"layer", each.layer},
                               {"tokens", each.tokens},
                               {"experts", each.experts},
                               {"unused", each.skew.unused},
                               {"max_over_mean", number(each.skew.maxOverMean)},
                               {"variation", number(each.skew.variation)},
                               {"entropy", number(each.skew.entropy)}});
  json["reuse"] = {
      {"requests", r.reuse.requests},
      {"prompt_tokens", r.reuse.promptTokens},
      {"rate", number(r.reuse.rate)},
      {"cold_first_token_ms", number(r.reuse.coldFirstTokenMs)},
      {"warm_first_token_ms", number(r.reuse.warmFirstTokenMs)}};
  json["drift"] = Json::array();
  for (const Drift &each : r.drift) {
    Json layers = Json::array();
    for (double error : each.layerErrors)
      layers.push_back(number(error));
    json["drift"].push_back({{"name", each.name},
                             {"tokens", each.tokens},
                             {"layer_rel_errors", std::move(layers)},
                             {"mean_kl", number(each.meanKl)},
                             {"greedy_agreement",
                              number(each.greedyAgreement)}});
  }
  json["outliers"] = Json::array();
  for (const LayerOutliers &each : r.outliers)
    json["outliers"].push_back(
        {{"layer", each.layer},
         {"max_over_rms", number(each.values.maxOverRms)},
         {"kurtosis", number(each.values.kurtosis)},
         {"mxfp4_rel_error", number(each.values.mxfp4Error)},
         {"mxfp8_rel_error", number(each.values.mxfp8Error)}});
  return json.dump();
}

} // namespace k3run::canary
