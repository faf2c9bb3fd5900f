//===- Suites.h - what k3-bench measures ---------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_SUITES_H
#define K3_TOOLS_K3BENCH_SUITES_H

#include "tools/runtime/k3-bench/Measure.h"
#include "tools/runtime/k3-bench/Report.h"

namespace k3bench {

/// Runs the suite of the options. The error is one line; nothing of `report` is of use then.
k3rt::Status runSuite(const Options &options, std::vector<Measurement> &report);

/// A step to be measured, for all suites alike.
struct Workload {
  k3::artifact::Phase phase = k3::artifact::Phase::Decode;
  uint32_t count = 1; ///< sequences of a decode step, tokens of a prefill
  uint32_t context = 0;

  bool decodes() const { return phase == k3::artifact::Phase::Decode; }
  StepSize size() const { return decodes() ? decodeSize(count, context) : prefillSize(count); }
  nlohmann::ordered_json params() const;
  k3rt::Status measure(Measurer &measurer, Timing &out, Profile *profile = nullptr) const {
    return decodes() ? measurer.decode(count, context, out, profile) : measurer.prefill(count, out, profile);
  }
};

/// What a suite works with.
struct Bench {
  const Options &options;
  const k3::artifact::Artifact &index;
  const CostModel &costs;
  Session &session;
  std::vector<Measurement> &report;

  std::vector<Workload> workloads() const;
  /// The program that runs it.
  const k3::artifact::Program &program(const Workload &workload) const {
    return programFor(index, workload.phase, options.device);
  }
};

k3rt::Status runModelSuite(const Bench &bench);
k3rt::Status runLayerSuite(const Bench &bench);
k3rt::Status runOpSuite(const Bench &bench);

/// What runOpSuite reports of one workload, behind a line of their sum, those that take most of a step first.
/// `stepSeconds`: of the step as it is without a profile.
k3rt::Status reportProfile(const Bench &bench, const Workload &workload, double stepSeconds);

/// What `seconds` for the products of `cost` reach, beside each peak of the machine. Nothing if there are
/// none.
void reportFlops(std::string name, const nlohmann::ordered_json &params, const Cost &cost, double seconds,
                 const MachineLimits &limits, std::vector<Measurement> &report);

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_SUITES_H
