//===- DeviceName.cpp - how the user names a processor -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/DeviceName.h"

#include <charconv>
#include <string_view>

namespace k3rt {

std::string DeviceName::text() const { return isCpu() ? "cpu" : "cuda:" + std::to_string(number); }

Status parseDeviceName(const std::string &text, DeviceName &out) {
  constexpr std::string_view prefix = "cuda:";
  DeviceName name;
  if (!text.empty() && text != "cpu") {
    name.kind = DeviceName::Kind::cuda;
    const char *end = text.data() + text.size();
    bool known = text == "cuda";
    if (text.compare(0, prefix.size(), prefix) == 0) {
      auto [parsed, failure] = std::from_chars(text.data() + prefix.size(), end, name.number);
      known = failure == std::errc() && parsed == end;
    }
    if (!known)
      return makeError(K3RT_INVALID_ARGUMENT, "device is %s (cpu, cuda:0, cuda:1, ...)", quoted(text).c_str());
  }
  out = name;
  return Status();
}

} // namespace k3rt
