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
  return Status();
}

} // namespace k3bench
