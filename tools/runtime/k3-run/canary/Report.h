//===- Report.h - what a canary run has found ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3RUN_CANARY_REPORT_H
#define K3_TOOLS_K3RUN_CANARY_REPORT_H

#include "tools/runtime/k3-run/canary/Statistics.h"

#include <string>

namespace k3run::canary {

/// Bytes; `measured` is how the resident memory of the process grew.
struct Memory {
  uint64_t weights = 0, arena = 0, pools = 0;
  uint64_t plannedPerSequence = 0, plannedPerToken = 0;
  double measuredPerSequence = 0, measuredPerToken = 0;
  uint64_t peakResident = 0;
};

struct Latency {
  uint64_t context = 0;
  double firstTokenMs = 0, perTokenMs = 0;
};

struct Routing {
  uint32_t layer = 0;
  uint64_t tokens = 0, experts = 0;
  LoadSkew skew;
};

/// A load of requests that share three quarters of their prompt.
struct Reuse {
  uint64_t requests = 0, promptTokens = 0;
  double rate = 0; ///< tokens taken from the cache / tokens asked for
  double coldFirstTokenMs = 0, warmFirstTokenMs = 0;
};

/// Against the artifact itself, over the same tokens.
struct Drift {
  std::string name; ///< "bf16 state", or of --against
  std::vector<double> layerErrors; ///< relative, of each layer's output
  double meanKl = 0;               ///< nats per token
  double greedyAgreement = 0;      ///< share of positions
  uint64_t tokens = 0;
};

struct LayerOutliers {
  uint32_t layer = 0;
  Outliers values;
};

struct Report {
  std::string model, artifact, compiler, textSource;
  uint32_t threads = 0;
  Memory memory;
  std::vector<Latency> latency;
  std::vector<Routing> routing;
  Reuse reuse;
  std::vector<Drift> drift;
  std::vector<LayerOutliers> outliers;
};

std::string toText(const Report &report);
/// One line, see docs/json.md.
std::string toJson(const Report &report);
/// A page that needs nothing else.
std::string toHtml(const Report &report);

} // namespace k3run::canary

#endif // K3_TOOLS_K3RUN_CANARY_REPORT_H
