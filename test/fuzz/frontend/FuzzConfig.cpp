//===- FuzzConfig.cpp - config.json ---------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FuzzSupport.h"
#include "frontend/MemoryPlan.h"
#include "frontend/TensorPlan.h"

using namespace k3::frontend;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<ModelConfig> config =
      parseModelConfig(k3::fuzz::text(data, size), "config.json");
  if (!config) {
    k3::fuzz::checkMessage(config.status(), "config.json");
    return 0;
  }
  K3_FUZZ_CHECK(config->layers.size() ==
                static_cast<size_t>(config->num_hidden_layers));
  K3_FUZZ_CHECK(config->hidden_size > 0 && config->vocab_size > 0);
  K3_FUZZ_CHECK(config->numKdaLayers() == 0 ||
                config->kda.projectionSize() > 0);
  K3_FUZZ_CHECK(config->numMlaLayers() == 0 || config->mla.outputSize() > 0);
  for (int64_t id : config->eos_token_id)
    K3_FUZZ_CHECK(id >= 0 && id < config->vocab_size);
  K3_FUZZ_CHECK(planMemory(*config).has_value());
  TensorPlan plan(*config);
  for (const TensorTemplate &entry : plan.templates())
    for (const TensorForm &form : entry.forms)
      for (int64_t extent : form.shape)
        K3_FUZZ_CHECK(extent > 0);
  return 0;
}
