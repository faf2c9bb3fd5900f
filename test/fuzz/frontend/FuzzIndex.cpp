//===- FuzzIndex.cpp - model.safetensors.index.json -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FuzzSupport.h"
#include "frontend/CheckpointIndex.h"
#include "frontend/TensorPlan.h"

using namespace k3::frontend;

/// A plan with layers and experts for the names to be matched against.
static const TensorPlan &plan() {
  static const TensorPlan thePlan = [] {
    Expected<ModelConfig> config =
        readModelConfig(K3_SOURCE_DIR "/models/k3-nano/config.json");
    K3_FUZZ_CHECK(config.ok());
    return TensorPlan(*config);
  }();
  return thePlan;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<CheckpointIndex> index =
      CheckpointIndex::parse(k3::fuzz::text(data, size), "index.json");
  if (!index) {
    k3::fuzz::checkMessage(index.status(), "index.json");
    return 0;
  }
  for (const std::string &shard : index->shards())
    K3_FUZZ_CHECK(shard.find('/') == std::string::npos && shard[0] != '.');
  for (const CheckpointIndex::Entry &entry : index->entries()) {
    K3_FUZZ_CHECK(entry.shard < index->shards().size());
    K3_FUZZ_CHECK(index->find(entry.name) == &entry);
    if (std::optional<TensorRef> ref = plan().match(entry.name))
      K3_FUZZ_CHECK(plan().templates()[ref->templateIndex].name(
                        ref->layer, ref->expert) == entry.name);
  }
  return 0;
}
