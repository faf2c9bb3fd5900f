//===- Suites.cpp - what k3-bench measures -------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"
#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/base/Process.h"
#include "tools/runtime/k3-run/Embedded.h"

#include <algorithm>

namespace k3bench {

using k3rt::Status;
namespace schema = k3::artifact;

nlohmann::ordered_json Workload::params() const {
  if (decodes())
    return {{"batch", count}, {"context", context}};
  return {{"tokens", count}};
}

std::vector<Workload> Bench::workloads() const {
  std::vector<Workload> all;
  for (uint32_t batch : options.decodeBatches)
    all.push_back({schema::Phase::Decode, batch, options.context});
  for (uint32_t tokens : options.prefills)
    all.push_back({schema::Phase::Prefill, tokens, 0});
  return all;
}

static Measurement machineValue(const char *name, uint32_t threads, double value, const char *unit) {
  return {name, {{"threads", threads}}, value, unit, std::nullopt};
}

static void runMachineSuite(const Options &options, std::vector<Measurement> &report) {
  uint32_t threads = options.threads != 0 ? options.threads : k3rt::allowedCores();
  std::vector<double> read, f32, bf16;
  for (uint32_t round = 0; round < options.repeat; ++round) {
    MachineLimits limits = measureMachine(threads);
    read.push_back(limits.readGBs);
    f32.push_back(limits.f32GFlops);
    bf16.push_back(limits.bf16GFlops);
  }
  report.push_back(machineValue("read_bandwidth", threads, median(read), "GB/s"));
  report.push_back(machineValue("f32_fma", threads, median(f32), "GFLOP/s"));
  if (median(bf16) != 0)
    report.push_back(machineValue("bf16_dot", threads, median(bf16), "GFLOP/s"));
}

void reportFlops(std::string name, const nlohmann::ordered_json &params, const Cost &cost, double seconds,
                 const MachineLimits &limits, std::vector<Measurement> &report) {
  if (cost.flops == 0)
    return;
  Measurement measurement = {std::move(name), params, cost.flops / seconds / 1e9, "GFLOP/s", limits.f32GFlops};
  measurement.params["peak"] = "f32";
  report.push_back(measurement);
  if (limits.bf16GFlops == 0)
    return;
  measurement.params["peak"] = "bf16";
  measurement.limit = limits.bf16GFlops;
  report.push_back(measurement);
}

Status runSuite(const Options &options, std::vector<Measurement> &report) {
  if (options.suite == Suite::machine) {
    runMachineSuite(options, report);
    return Status();
  }
  std::optional<k3run::ArtifactLocation> embedded;
  std::string error;
  if (!k3run::findEmbedded(options.path, embedded, error))
    return Status(K3RT_BAD_ARTIFACT, error);
  uint64_t offset = embedded ? embedded->offset : 0;
  k3rt::Artifact artifact;
  K3RT_RETURN_IF_ERROR(artifact.open(options.path, offset));
  const schema::Artifact &index = artifact.index();
  if (!index.has_weights() && options.randomWeights == 0)
    return Status(K3RT_INVALID_ARGUMENT,
                  options.path + ": compiled without weights: use --random-weights SEED to make some up");
  CostModel costs;
  if (Status status = costs.init(index); !status.ok())
    return Status(status.code(), options.path + ": " + status.message());

  uint32_t sequences = 1;
  uint64_t tokens = 1;
  for (uint32_t batch : options.decodeBatches) {
    sequences = std::max(sequences, batch);
    tokens = std::max(tokens, options.context + Measurer::maxDecodeSteps(options.repeat));
  }
  for (uint32_t prefill : options.prefills)
    tokens = std::max<uint64_t>(tokens, prefill);
  Session session;
  K3RT_RETURN_IF_ERROR(session.open(options, offset, sequences, tokens));
  Bench bench = {options, index, costs, session, report};
  switch (options.suite) {
  case Suite::ops:
    return runOpSuite(bench);
  case Suite::layers:
    return runLayerSuite(bench);
  default:
    return runModelSuite(bench);
  }
}

} // namespace k3bench
