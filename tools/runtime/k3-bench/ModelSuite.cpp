//===- ModelSuite.cpp - tokens per second of a whole model ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"

#include <algorithm>

namespace k3bench {

using k3rt::Status;

/// Tokens per second beside what the machine could do: bytes by bandwidth for decode, products by the highest peak for
/// prefill.
static Measurement tokensPerSecond(const Workload &workload, const Cost &cost, const Timing &timing) {
  double least = workload.decodes() ? cost.bytes() / (timing.limits.readGBs * 1e9)
                                    : cost.flops / (timing.limits.bestGFlops() * 1e9);
  Measurement out = {workload.decodes() ? "decode" : "prefill", workload.params(), workload.count / timing.seconds,
                     "tokens/s", std::nullopt};
  if (least > 0)
    out.limit = workload.count / least;
  out.params["ms"] = timing.seconds * 1e3;
  return out;
}

/// What loading and running has taken of a GPU's memory, beside the plan.
static void reportGpuMemory(const Bench &bench, const k3rt_device_info &loaded) {
  k3rt_device_info gpu = bench.session.device();
  if (gpu.total_bytes == 0)
    return;
  constexpr double giga = 1e9;
  uint64_t taken = gpu.open_free_bytes - std::min(gpu.open_free_bytes, gpu.free_bytes);
  bench.report.push_back({"gpu_memory",
                          {{"gpu", gpu.model},
                           {"planned_bytes", gpu.planned_bytes},
                           {"allocated_bytes", gpu.allocated_bytes},
                           {"loaded_bytes", loaded.open_free_bytes - std::min(loaded.open_free_bytes, loaded.free_bytes)},
                           {"measured_bytes", taken},
                           {"products", gpu.products},
                           {"open_s", bench.session.openSeconds()}},
                          double(taken) / giga,
                          "GB",
                          double(gpu.planned_bytes) / giga});
}

/// From a prompt to its first token, greedy.
static Status reportFirstToken(const Bench &bench, const Workload &workload) {
  std::vector<double> times(bench.options.repeat);
  for (double &seconds : times)
    K3RT_RETURN_IF_ERROR(bench.session.firstToken(workload.count, seconds));
  bench.report.push_back({"first_token", workload.params(), median(times) * 1e3, "ms", std::nullopt});
  return Status();
}

Status runModelSuite(const Bench &bench) {
  Measurer measurer(bench.session, bench.options.repeat);
  k3rt_device_info loaded = bench.session.device();
  for (const Workload &workload : bench.workloads()) {
    Cost cost = bench.costs.step(bench.program(workload), workload.size());
    Timing timing;
    K3RT_RETURN_IF_ERROR(workload.measure(measurer, timing));
    Measurement tokens = tokensPerSecond(workload, cost, timing);
    tokens.params["threads"] = bench.session.threads();
    if (workload.decodes()) {
      tokens.params["bytes"] = cost.bytes();
      tokens.params["read_gb_per_s"] = timing.limits.readGBs;
    }
    bench.report.push_back(tokens);
    if (!workload.decodes()) {
      reportFlops("prefill_products", workload.params(), cost, timing.seconds, timing.limits, bench.report);
      K3RT_RETURN_IF_ERROR(reportFirstToken(bench, workload));
    }
    if (bench.options.profile)
      K3RT_RETURN_IF_ERROR(reportProfile(bench, workload, timing.seconds));
  }
  reportGpuMemory(bench, loaded);
  return Status();
}

} // namespace k3bench
