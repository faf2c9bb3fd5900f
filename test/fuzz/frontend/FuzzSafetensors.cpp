//===- FuzzSafetensors.cpp - a whole safetensors file ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "FuzzSupport.h"
#include "frontend/Safetensors.h"

using namespace k3::frontend;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<SafetensorsHeader> header =
      parseSafetensors(k3::fuzz::text(data, size), size, "model.safetensors");
  if (!header) {
    k3::fuzz::checkMessage(header.status(), "model.safetensors");
    return 0;
  }
  // Every data byte belongs to exactly one tensor, so the sizes add up.
  uint64_t total = 0;
  for (const SafetensorsTensor &tensor : header->tensors) {
    K3_FUZZ_CHECK(tensor.offset >= header->dataStart);
    K3_FUZZ_CHECK(tensor.offset + tensor.bytes <= size);
    K3_FUZZ_CHECK(header->find(tensor.name) == &tensor);
    total += tensor.bytes;
  }
  K3_FUZZ_CHECK(header->dataStart + total == size);
  return 0;
}
