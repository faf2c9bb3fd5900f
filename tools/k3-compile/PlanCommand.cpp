//===- PlanCommand.cpp - k3-compile --plan -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/File.h"
#include "frontend/MemoryPlan.h"
#include "tools/k3-compile/Commands.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace ::k3::frontend;

/// "449.4 MB", decimal units.
static std::string bytesText(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : value < 10 ? "%.2f %s" : "%.1f %s", value, units[unit]);
  return text;
}

Status k3compile::runPlan(const Options &options) {
  Expected<ModelConfig> config =
      readModelConfig(options.config.empty() ? joinPath(options.model, "config.json") : options.config);
  if (!config)
    return config.status();
  // What the model's authors serve with, unless asked otherwise.
  unsigned elementBytes = options.cacheDtype == CacheDtype::F32 ? 4 : 2;
  std::optional<MemoryPlan> plan = planMemory(*config, elementBytes);
  if (!plan)
    return Status::error("the model's weights exceed 2^60 bytes");
  llvm::raw_ostream &os = llvm::outs();
  if (options.json) {
    llvm::json::OStream json(os);
    json.object([&] {
      json.attribute("state_bytes_per_sequence", plan->state_bytes_per_sequence);
      json.attribute("recurrent_bytes_per_sequence", plan->recurrent_bytes_per_sequence);
      json.attribute("conv_bytes_per_sequence", plan->conv_bytes_per_sequence);
      json.attribute("kv_bytes_per_token", plan->kv_bytes_per_token);
      json.attribute("expert_bytes", plan->expert_bytes);
      json.attribute("weight_bytes", plan->weight_bytes);
    });
    os << "\n";
    return Status::success();
  }
  auto line = [&](const char *what, uint64_t bytes, const std::string &note) {
    os << llvm::left_justify(what, 24) << llvm::right_justify(bytesText(bytes), 10) << "  (" << bytes << " B" << note
       << ")\n";
  };
  const char *element = elementBytes == 4 ? "f32" : "bf16";
  os << config->model_type << ", " << config->num_hidden_layers << " layers (" << config->numKdaLayers() << " KDA, "
     << config->numMlaLayers() << " MLA), " << element << " cache and convolution window\n";
  line("state per sequence", plan->state_bytes_per_sequence,
       ": " + bytesText(plan->recurrent_bytes_per_sequence) + " recurrent + " +
           bytesText(plan->conv_bytes_per_sequence) + " convolution");
  line("cache per token", plan->kv_bytes_per_token, "");
  if (plan->expert_bytes)
    line("one routed expert", plan->expert_bytes, "");
  line("all weights", plan->weight_bytes, "");
  return Status::success();
}
