//===- Measure.cpp - work and machine measured in turns ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-bench/Measure.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace k3bench {

using k3rt::Status;

/// Steps of a round take about this long together, so that a round is not much shorter than the machine's measurement.
static constexpr double roundSeconds = 0.2;
static constexpr uint32_t maxStepsPerRound = 32, warmUpSteps = 2;

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + ptrdiff_t((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool ProfileKey::operator<(const ProfileKey &other) const {
  return std::tie(phase, section, layer, group, dispatch) <
         std::tie(other.phase, other.section, other.layer, other.group, other.dispatch);
}

void Profile::record(void *user, const k3rt_profile_event *event) {
  ProfileKey key = {event->phase, event->section, event->layer, event->group, event->dispatch};
  Entry &entry = static_cast<Profile *>(user)->current[key];
  if (entry.seconds.empty()) {
    entry.label = event->label;
    entry.seconds = {0};
  }
  entry.seconds[0] += event->seconds;
}

void Profile::endStep(bool keep) {
  if (keep)
    for (const auto &[key, entry] : current) {
      entries[key].label = entry.label;
      entries[key].seconds.push_back(entry.seconds[0]);
    }
  current.clear();
}

uint64_t Measurer::maxDecodeSteps(uint32_t rounds) { return warmUpSteps + uint64_t(rounds) * maxStepsPerRound; }

template <typename Step> Status Measurer::measure(Step step, Timing &out, Profile *profile) {
  auto timed = [&](bool keep, double &seconds) {
    Status status = step(seconds);
    if (profile)
      profile->endStep(keep);
    return status;
  };
  double warm = 0;
  for (uint32_t i = 0; i < warmUpSteps; ++i)
    K3RT_RETURN_IF_ERROR(timed(false, warm));
  auto perRound = uint32_t(std::clamp(std::round(roundSeconds / std::max(warm, 1e-9)), 1.0, double(maxStepsPerRound)));
  std::vector<double> seconds, read, f32, bf16;
  for (uint32_t round = 0; round < rounds; ++round) {
    MachineLimits limits = session.limits();
    read.push_back(limits.readGBs);
    f32.push_back(limits.f32GFlops);
    bf16.push_back(limits.bf16GFlops);
    for (uint32_t i = 0; i < perRound; ++i) {
      seconds.push_back(0);
      K3RT_RETURN_IF_ERROR(timed(true, seconds.back()));
    }
  }
  out.seconds = median(seconds);
  out.steps = uint32_t(seconds.size());
  out.limits = {median(read), median(f32), median(bf16)};
  return Status();
}

Status Measurer::decode(uint32_t batch, uint32_t context, Timing &out, Profile *profile) {
  K3RT_RETURN_IF_ERROR(session.start(batch, context));
  if (profile)
    profile->endStep(false);
  return measure([&](double &seconds) { return session.decode(seconds); }, out, profile);
}

Status Measurer::prefill(uint32_t tokens, Timing &out, Profile *profile) {
  return measure([&](double &seconds) { return session.prefill(tokens, seconds); }, out, profile);
}

StepSize decodeSize(uint32_t batch, uint32_t context) {
  StepSize size;
  size.sequences = size.rows = size.logitRows = batch;
  size.context = context;
  return size;
}

StepSize prefillSize(uint32_t tokens) {
  StepSize size;
  size.rows = tokens;
  return size;
}

} // namespace k3bench
