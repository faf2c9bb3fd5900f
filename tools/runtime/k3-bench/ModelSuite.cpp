//===- ModelSuite.cpp - tokens per second of a whole model ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"

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
static void reportGpuMemory(const Bench &bench) {
  k3rt_device_info gpu = bench.session.device();
  if (gpu.total_bytes == 0)
    return;
  constexpr double giga = 1e9;
  auto taken = double(gpu.open_free_bytes) - double(gpu.free_bytes);
  bench.report.push_back({"gpu_memory",
                          {{"gpu", gpu.model}, {"allocated_gb", double(gpu.allocated_bytes) / giga}},
                          taken / giga,
                          "GB",
                          double(gpu.planned_bytes) / giga});
}

Status runModelSuite(const Bench &bench) {
  Measurer measurer(bench.session, bench.options.repeat);
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
    if (!workload.decodes())
      reportFlops("prefill_products", workload.params(), cost, timing.seconds, timing.limits, bench.report);
  }
  reportGpuMemory(bench);
  return Status();
}

} // namespace k3bench
