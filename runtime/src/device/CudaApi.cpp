//===- CudaApi.cpp - the CUDA driver, found at run time ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaApi.h"

#include <dlfcn.h>

namespace k3rt {

/// The first driver with all functions that are used (the newest is cuFuncGetParamInfo).
static constexpr int leastVersion = 12040;

std::string CudaApi::versionText(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string CudaApi::describe(CudaResult result) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(result, &name) != CudaResult::success || !name)
    return "CUDA error " + std::to_string(int(result));
  if (getErrorString(result, &text) != CudaResult::success || !text)
    return name;
  return std::string(name) + " (" + text + ")";
}

static Status tooOld(const std::string &why) {
  return Status(K3RT_UNSUPPORTED, "the NVIDIA driver is too old: " + why);
}

Status CudaApi::open() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return makeError(K3RT_UNSUPPORTED, "no NVIDIA driver: %s", reason ? reason : "libcuda.so.1 cannot be opened");
  }
  auto find = [&](const char *symbol) { return dlsym(library, symbol); };
  // The version is asked first: it tells more than the name of a function that is missing.
  driverGetVersion = reinterpret_cast<decltype(driverGetVersion)>(find("cuDriverGetVersion"));
  if (!driverGetVersion || driverGetVersion(&driverVersion) != CudaResult::success)
    return Status(K3RT_UNSUPPORTED, "no NVIDIA driver: libcuda.so.1 does not tell its version");
  if (driverVersion < leastVersion)
    return tooOld("it supports " + version() + ", " + versionText(leastVersion) + " is needed");
#define K3_CUDA_SYMBOL(member, symbol, parameters)                                                                     \
  member = reinterpret_cast<decltype(member)>(find(symbol));                                                           \
  if (!member)                                                                                                         \
    return tooOld("it has no " symbol);
#include "runtime/src/device/CudaSymbols.inc"
#undef K3_CUDA_SYMBOL
  CudaResult result = init(0);
  if (result == CudaResult::noDevice)
    return Status(K3RT_UNSUPPORTED, "no NVIDIA GPU");
  if (result != CudaResult::success)
    return makeError(K3RT_UNSUPPORTED, "the NVIDIA driver does not start: %s", describe(result).c_str());
  return Status();
}

} // namespace k3rt
