//===- GpuChip.h - what GPUs a cubin runs on -----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ARTIFACT_GPUCHIP_H
#define K3RT_ARTIFACT_GPUCHIP_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace k3rt {

/// The target of a cubin, "sm_90a": compute capability 9.0, with instructions that only this one has.
struct GpuChip {
  uint32_t major = 0, minor = 0;
  char suffix = 0; ///< 'a': this capability alone; 'f': its family; 0: this generation

  bool runsOn(uint32_t capabilityMajor, uint32_t capabilityMinor) const {
    if (capabilityMajor != major)
      return false;
    return suffix == 'a' ? capabilityMinor == minor : capabilityMinor >= minor;
  }
};

/// Nothing if `name` is not of that form.
std::optional<GpuChip> parseGpuChip(std::string_view name);

} // namespace k3rt

#endif // K3RT_ARTIFACT_GPUCHIP_H
