//===- Measure.h - work and machine measured in turns --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TOOLS_K3BENCH_MEASURE_H
#define K3_TOOLS_K3BENCH_MEASURE_H

#include "tools/runtime/k3-bench/Cost.h"
#include "tools/runtime/k3-bench/MachineLimits.h"
#include "tools/runtime/k3-bench/Session.h"

#include <map>

namespace k3bench {

/// Of an even number the lower of the two in the middle; 0 of none.
double median(std::vector<double> values);

/// Seconds of steps of one kind, and the machine's limits while they ran.
struct Timing {
  double seconds = 0; ///< median
  uint32_t steps = 0; ///< how many were measured
  MachineLimits limits;
};

/// Which group or dispatch.
struct ProfileKey {
  uint32_t phase, section;
  int32_t layer;
  uint32_t group;
  int32_t dispatch;
  bool operator<(const ProfileKey &other) const;
};

/// Collects k3rt_profile_events: seconds per measured step.
class Profile {
public:
  static void record(void *user, const k3rt_profile_event *event);

  struct Entry {
    std::string label;
    std::vector<double> seconds; ///< one per measured step
  };
  std::map<ProfileKey, Entry> entries;

private:
  friend class Measurer;
  void endStep(bool keep);
  std::map<ProfileKey, Entry> current; ///< of the step at hand
};

/// Runs warm-up steps, then rounds that measure the machine first and the model second.
class Measurer {
public:
  Measurer(Session &session, uint32_t rounds) : session(session), rounds(rounds) {}

  /// The most tokens that decode() feeds to a sequence after its context.
  static uint64_t maxDecodeSteps(uint32_t rounds);

  k3rt::Status decode(uint32_t batch, uint32_t context, Timing &out, Profile *profile = nullptr);
  k3rt::Status prefill(uint32_t tokens, Timing &out, Profile *profile = nullptr);

private:
  /// `step` runs one step and sets its seconds.
  template <typename Step> k3rt::Status measure(Step step, Timing &out, Profile *profile);

  Session &session;
  uint32_t rounds;
};

/// The size of those steps, for CostModel.
StepSize decodeSize(uint32_t batch, uint32_t context);
StepSize prefillSize(uint32_t tokens);

} // namespace k3bench

#endif // K3_TOOLS_K3BENCH_MEASURE_H
