//===- LayerSuite.cpp - layers without embedding and head ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"

namespace k3bench {

using k3rt::Status;
namespace schema = k3::artifact;

namespace {
/// Several layers, per step.
struct Layers {
  uint32_t count = 0;
  Cost cost;
  std::vector<double> seconds; ///< one per measured step, of all of them

  void add(const Cost &more, const std::vector<double> &times) {
    ++count;
    cost += more;
    seconds.resize(std::max(seconds.size(), times.size()));
    for (size_t i = 0; i < times.size(); ++i)
      seconds[i] += times[i];
  }
};
} // namespace

/// Seconds of every layer, one per measured step.
static std::vector<std::vector<double>> layerSeconds(const Profile &profile, uint32_t numLayers) {
  std::vector<std::vector<double>> out(numLayers);
  for (const auto &[key, entry] : profile.entries) {
    if (key.layer < 0 || uint32_t(key.layer) >= numLayers)
      continue;
    std::vector<double> &seconds = out[uint32_t(key.layer)];
    seconds.resize(std::max(seconds.size(), entry.seconds.size()));
    for (size_t i = 0; i < entry.seconds.size(); ++i)
      seconds[i] += entry.seconds[i];
  }
  return out;
}

static void reportLayers(const Bench &bench, const Workload &workload, const std::string &kind, const Layers &layers,
                         const MachineLimits &limits) {
  double seconds = median(layers.seconds);
  nlohmann::ordered_json params = workload.params();
  params["kind"] = kind;
  params["layers"] = layers.count;
  params["ms"] = seconds * 1e3;
  params["threads"] = bench.session.threads();
  if (!workload.decodes())
    return reportFlops("prefill_layers", params, layers.cost, seconds, limits, bench.report);
  params["bytes"] = layers.cost.bytes();
  bench.report.push_back({"decode_layers", params, layers.cost.bytes() / seconds / 1e9, "GB/s", limits.readGBs});
}

Status runLayerSuite(const Bench &bench) {
  Measurer measurer(bench.session, bench.options.repeat);
  const auto *table = bench.index.layers();
  uint32_t numLayers = table ? table->size() : 0;
  for (const Workload &workload : bench.workloads()) {
    const schema::Program &program = bench.program(workload);
    Profile profile;
    Timing timing;
    bench.session.setProfile(Profile::record, &profile, /*eachDispatch=*/false);
    Status status = workload.measure(measurer, timing, &profile);
    bench.session.setProfile(nullptr, nullptr, false);
    K3RT_RETURN_IF_ERROR(status);

    std::vector<std::vector<double>> seconds = layerSeconds(profile, numLayers);
    Layers all;
    std::map<std::string, Layers> kinds;
    for (uint32_t i = 0; i < numLayers; ++i) {
      const auto *name = program.layer_kinds()->Get(table->Get(i)->kind())->name();
      Cost cost = bench.costs.layer(program, i, workload.size());
      all.add(cost, seconds[i]);
      kinds[name ? name->str() : ""].add(cost, seconds[i]);
    }
    reportLayers(bench, workload, "all", all, timing.limits);
    for (const auto &[name, layers] : kinds)
      reportLayers(bench, workload, name, layers, timing.limits);
  }
  return Status();
}

} // namespace k3bench
