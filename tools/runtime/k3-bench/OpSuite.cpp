//===- OpSuite.cpp - every dispatch by itself ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Suites.h"

#include <algorithm>

namespace k3bench {

using k3rt::Status;
namespace schema = k3::artifact;

namespace {
/// A dispatch of the program; in a layer, of all layers of a kind.
struct Op {
  std::string where, label, kernel;
  Cost cost;
  uint32_t perStep = 0;        ///< calls
  std::vector<double> seconds; ///< of each measured call
  double stepSeconds = 0;      ///< of all calls in a step: the sum of their medians
};

struct OpKey {
  uint32_t section, kind, group;
  int32_t dispatch;
  bool operator<(const OpKey &other) const {
    return std::tie(section, kind, group, dispatch) < std::tie(other.section, other.kind, other.group, other.dispatch);
  }
};
} // namespace

static const char *const sectionNames[] = {"prologue", "layer", "epilogue"};

/// What the dispatch behind a profile entry is and costs.
static void describe(const Bench &bench, const Workload &workload, const ProfileKey &key, Op &op) {
  const schema::Program &program = bench.program(workload);
  auto dispatchIn = [&](const auto *groups) -> const schema::Dispatch & {
    return *groups->Get(key.group)->dispatches()->Get(uint32_t(key.dispatch));
  };
  auto kernelOf = [&](const schema::Dispatch &dispatch) {
    const auto *name = bench.index.kernels()->Get(dispatch.kernel())->name();
    return name ? name->str() : std::string();
  };
  StepSize size = workload.size();
  op.where = sectionNames[key.section];
  if (key.section == 0) {
    op.kernel = kernelOf(dispatchIn(program.prologue()));
    op.cost = bench.costs.prologueDispatch(dispatchIn(program.prologue()), size);
  } else if (key.section == 2) {
    op.kernel = kernelOf(dispatchIn(program.epilogue()));
    op.cost = bench.costs.epilogueDispatch(dispatchIn(program.epilogue()), size);
  } else {
    auto layer = uint32_t(key.layer);
    const auto *kind = program.layer_kinds()->Get(bench.index.layers()->Get(layer)->kind());
    if (kind->name())
      op.where = kind->name()->str();
    op.kernel = kernelOf(dispatchIn(kind->groups()));
    op.cost = bench.costs.layerDispatch(dispatchIn(kind->groups()), layer, size);
  }
}

/// In the rate that limits it; without weights and states just its time.
static Measurement measurementOf(const Bench &bench, const Workload &workload, const Op &op,
                                 const MachineLimits &limits) {
  double seconds = median(op.seconds);
  Measurement out;
  out.name = op.label;
  out.params = {{"phase", workload.decodes() ? "decode" : "prefill"}, {"in", op.where}};
  out.params.update(workload.params());
  out.params["kernel"] = op.kernel;
  out.params["calls"] = op.perStep;
  out.params["step_us"] = op.stepSeconds * 1e6;
  out.params["us"] = seconds * 1e6;
  out.params["bytes"] = op.cost.bytes();
  double gbs = op.cost.bytes() / seconds / 1e9, gflops = op.cost.flops / seconds / 1e9;
  if (op.cost.bytes() > 0)
    out.params["gb_per_s"] = gbs;
  if (op.cost.flops > 0)
    out.params["gflop_per_s"] = gflops;
  out.params["threads"] = bench.session.threads();
  double readSeconds = op.cost.bytes() / limits.readGBs, productSeconds = op.cost.flops / limits.bestGFlops();
  if (readSeconds == 0 && productSeconds == 0) {
    out.value = seconds * 1e6;
    out.unit = "us";
  } else if (readSeconds >= productSeconds) {
    out.value = gbs;
    out.unit = "GB/s";
    out.limit = limits.readGBs;
  } else {
    out.value = gflops;
    out.unit = "GFLOP/s";
    out.limit = limits.bestGFlops();
  }
  return out;
}

/// In the order of the program.
static Status measureOps(const Bench &bench, const Workload &workload, std::vector<Op> &out, MachineLimits &limits) {
  Measurer measurer(bench.session, bench.options.repeat);
  Profile profile;
  Timing timing;
  bench.session.setProfile(Profile::record, &profile, /*eachDispatch=*/true);
  Status status = workload.measure(measurer, timing, &profile);
  bench.session.setProfile(nullptr, nullptr, false);
  K3RT_RETURN_IF_ERROR(status);
  limits = timing.limits;

  std::map<OpKey, Op> ops;
  for (const auto &[key, entry] : profile.entries) {
    uint32_t kind = key.layer < 0 ? 0 : bench.index.layers()->Get(uint32_t(key.layer))->kind();
    Op &op = ops[{key.section, kind, key.group, key.dispatch}];
    if (op.perStep++ == 0)
      describe(bench, workload, key, op);
    op.label = entry.label;
    op.stepSeconds += median(entry.seconds);
    op.seconds.insert(op.seconds.end(), entry.seconds.begin(), entry.seconds.end());
  }
  for (auto &[key, op] : ops)
    out.push_back(std::move(op));
  return Status();
}

Status runOpSuite(const Bench &bench) {
  for (const Workload &workload : bench.workloads()) {
    std::vector<Op> ops;
    MachineLimits limits;
    K3RT_RETURN_IF_ERROR(measureOps(bench, workload, ops, limits));
    for (const Op &op : ops)
      bench.report.push_back(measurementOf(bench, workload, op, limits));
  }
  return Status();
}

Status reportProfile(const Bench &bench, const Workload &workload, double stepSeconds) {
  std::vector<Op> ops;
  MachineLimits limits;
  K3RT_RETURN_IF_ERROR(measureOps(bench, workload, ops, limits));
  std::sort(ops.begin(), ops.end(), [](const Op &a, const Op &b) { return a.stepSeconds > b.stepSeconds; });
  double sum = 0;
  uint32_t calls = 0;
  for (const Op &op : ops) {
    sum += op.stepSeconds;
    calls += op.perStep;
  }
  Measurement total = {"profile", {{"phase", workload.decodes() ? "decode" : "prefill"}}, sum * 1e6, "us", std::nullopt};
  total.params.update(workload.params());
  total.params["calls"] = calls;
  total.params["without_profile_us"] = stepSeconds * 1e6;
  bench.report.push_back(total);
  for (const Op &op : ops) {
    Measurement measurement = measurementOf(bench, workload, op, limits);
    measurement.params["share"] = sum > 0 ? op.stepSeconds / sum : 0;
    bench.report.push_back(measurement);
  }
  return Status();
}

} // namespace k3bench
