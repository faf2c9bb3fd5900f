//===- DeviceName.h - how the user names a processor ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_DEVICENAME_H
#define K3RT_BASE_DEVICENAME_H

#include "runtime/src/base/Status.h"

namespace k3rt {

/// "cpu", or "cuda:0" for the first NVIDIA GPU.
struct DeviceName {
  enum class Kind : uint8_t { cpu, cuda };

  Kind kind = Kind::cpu;
  uint32_t number = 0; ///< of a GPU, in the driver's order

  bool isCpu() const { return kind == Kind::cpu; }
  std::string text() const;
};

/// Empty text is the CPU, "cuda" the first GPU. Error: K3RT_INVALID_ARGUMENT.
Status parseDeviceName(const std::string &text, DeviceName &out);

} // namespace k3rt

#endif // K3RT_BASE_DEVICENAME_H
