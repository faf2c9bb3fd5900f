//===- CudaGpu.h - cases on a CUDA device ----------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Gpu.h"

#include <memory>

namespace k3::gpu {

/// Device number `ordinal` through the CUDA driver, which is opened now (libcuda.so.1). Throws GpuError.
std::unique_ptr<Gpu> openCuda(int ordinal);

} // namespace k3::gpu
