//===- GpuChip.cpp - what GPUs a cubin runs on ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/GpuChip.h"

#include <charconv>

namespace k3rt {

std::optional<GpuChip> parseGpuChip(std::string_view name) {
  constexpr std::string_view prefix = "sm_";
  constexpr size_t mostDigits = 4;
  if (name.substr(0, prefix.size()) != prefix)
    return std::nullopt;
  name.remove_prefix(prefix.size());
  GpuChip chip;
  if (!name.empty() && (name.back() == 'a' || name.back() == 'f')) {
    chip.suffix = name.back();
    name.remove_suffix(1);
  }
  uint32_t number = 0;
  auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (failure != std::errc() || end != name.data() + name.size() || name.size() < 2 || name.size() > mostDigits)
    return std::nullopt;
  chip.major = number / 10;
  chip.minor = number % 10;
  return chip;
}

} // namespace k3rt
