//===- Cublas.h - NVIDIA's products, to compare times with -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Gpu.h"

#include <memory>

namespace k3::gpu {

/// cuBLAS, opened while the program runs where it is installed.
class Cublas {
public:
  /// Null where there is no cuBLAS: it is looked for under the name in K3_CUBLAS, where libraries usually are and below
  /// /usr/local/cuda. `stream` is the driver's and of the current context.
  static std::unique_ptr<Cublas> open(void *stream);
  ~Cublas();
  Cublas(const Cublas &) = delete;
  Cublas &operator=(const Cublas &) = delete;

  /// On the stream; false where cuBLAS refuses.
  bool multiply(const Gpu::Product &product) const;

private:
  Cublas() = default;
  struct Functions;
  std::unique_ptr<Functions> functions;
  void *handle = nullptr;
};

} // namespace k3::gpu
