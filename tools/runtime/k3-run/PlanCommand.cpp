//===- PlanCommand.cpp - k3-run --plan ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-run/Commands.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <unistd.h>

namespace k3run {

namespace {
std::string bytes(uint64_t value) {
  const char *units[] = {"B", "KB", "MB", "GB", "TB"};
  double scaled = static_cast<double>(value);
  int unit = 0;
  while (scaled >= 1000 && unit < 4) {
    scaled /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", scaled,
                units[unit]);
  return text;
}

/// Lengths that the trade-off is shown for: 1K, 4K, ... up to the model's limit,
/// and that limit.
std::vector<uint64_t> lengthsUpTo(uint64_t limit) {
  std::vector<uint64_t> lengths;
  constexpr uint64_t most = uint64_t(1) << 20;
  uint64_t last = limit != 0 ? limit : most;
  for (uint64_t tokens = 1024; tokens < last; tokens *= 4)
    lengths.push_back(tokens);
  lengths.push_back(last);
  return lengths;
}

/// What the machine has beside the weights; 0 if they are larger.
uint64_t memoryBesideWeights(uint64_t weights) {
  uint64_t all = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                 static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return all > weights ? all - weights : 0;
}
} // namespace

bool runPlan(const Options &options, Streams &streams, std::string &error) {
  k3rt_engine_options settings = engineOptions(options);
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  char message[1024] = {};
  if (k3rt_plan_open(options.artifact.path.c_str(), options.artifact.offset,
                     &settings, &plan, message, sizeof(message)) != K3RT_OK) {
    error = message;
    return false;
  }
  bool given = settings.memory_limit != 0;
  bool onGpu = !options.device.empty() && options.device != "cpu";
  if (!given && !onGpu)
    settings.memory_limit = memoryBesideWeights(plan.weight_bytes);
  std::vector<uint64_t> lengths = lengthsUpTo(plan.model_context);
  std::vector<uint64_t> sequences(lengths.size());
  if (settings.memory_limit != 0 &&
      k3rt_plan_capacity(options.artifact.path.c_str(), options.artifact.offset,
                         &settings, lengths.data(),
                         static_cast<uint32_t>(lengths.size()),
                         sequences.data(), message,
                         sizeof(message)) != K3RT_OK) {
    error = message;
    return false;
  }
  if (options.json) {
    nlohmann::ordered_json json;
    json["state_bytes_per_sequence"] = plan.state_bytes_per_sequence;
    json["recurrent_bytes_per_sequence"] = plan.recurrent_bytes_per_sequence;
    json["conv_bytes_per_sequence"] = plan.conv_bytes_per_sequence;
    json["kv_bytes_per_token"] = plan.kv_bytes_per_token;
    json["expert_bytes"] = plan.expert_bytes;
    json["weight_bytes"] = plan.weight_bytes;
    json["arena_bytes"] = plan.arena_bytes;
    json["state_pool_bytes"] = plan.state_pool_bytes;
    json["kv_pool_bytes"] = plan.kv_pool_bytes;
    json["total_bytes"] = plan.total_bytes;
    json["budget_bytes"] = settings.memory_limit;
    json["capacity"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < lengths.size(); ++i)
      json["capacity"].push_back(
          {{"tokens", lengths[i]}, {"sequences", sequences[i]}});
    streams.out << json.dump() << '\n';
    return true;
  }
  auto row = [&streams](const char *name, uint64_t value,
                        const std::string &note) {
    char text[256];
    std::snprintf(text, sizeof(text), "%-24s %10s  %s\n", name,
                  bytes(value).c_str(), note.c_str());
    streams.out << text;
  };
  row("weights", plan.weight_bytes,
      plan.expert_bytes ? "one routed expert " + bytes(plan.expert_bytes)
                        : std::string("no routed experts"));
  row("state per sequence", plan.state_bytes_per_sequence,
      bytes(plan.recurrent_bytes_per_sequence) + " recurrent, " +
          bytes(plan.conv_bytes_per_sequence) + " convolution");
  row("latent cache per token", plan.kv_bytes_per_token, "");
  row("scratch memory", plan.arena_bytes, "the largest program's arena");
  row("state pool", plan.state_pool_bytes, "with these options");
  row("cache pool", plan.kv_pool_bytes, "with these options");
  row("all together", plan.total_bytes,
      onGpu ? "with these options, weights included"
            : "with these options, weights apart");
  if (settings.memory_limit == 0 && onGpu) {
    streams.out << "Say with --memory-limit what the GPU has, to see how many "
                   "sequences it holds.\n";
    return true;
  }
  if (settings.memory_limit == 0) {
    streams.out << "The weights are larger than this machine's memory; say with "
                   "--memory-limit what there is beside them.\n";
    return true;
  }
  row("budget", settings.memory_limit,
      given ? "--memory-limit" : "this machine's memory beside the weights");
  streams.out << "Sequences that it holds at the same time, by the length of "
                 "each:\n";
  for (size_t i = 0; i < lengths.size(); ++i) {
    char text[64];
    std::snprintf(text, sizeof(text), "%16llu tokens %12llu\n",
                  static_cast<unsigned long long>(lengths[i]),
                  static_cast<unsigned long long>(sequences[i]));
    streams.out << text;
  }
  return true;
}

} // namespace k3run
