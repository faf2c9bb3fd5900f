//===- CudaKernels.h - the kernels of an artifact on a GPU ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_CUDAKERNELS_H
#define K3RT_DEVICE_CUDAKERNELS_H

#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/device/CudaDevice.h"

#include <vector>

namespace k3rt {

/// All cubins of an artifact, loaded at once: nothing is loaded or compiled while a step runs.
class CudaKernels {
public:
  /// `device` outlives the kernels.
  explicit CudaKernels(CudaDevice &device) : device(device) {}
  ~CudaKernels();
  CudaKernels(const CudaKernels &) = delete;
  CudaKernels &operator=(const CudaKernels &) = delete;

  /// Errors: K3RT_UNSUPPORTED when the GPU is not what a cubin was compiled for, or the driver cannot load it;
  /// K3RT_BAD_ARTIFACT when it is damaged, lacks a kernel or cannot be launched as the artifact says.
  Status load(const Artifact &artifact);

  /// By its ordinal in the artifact; null for a kernel that is not for a GPU.
  CudaFunction function(uint32_t kernel) const { return kernels[kernel]; }

private:
  Status checkChips(const k3::artifact::Artifact &index) const;
  Status loadModule(const Artifact &artifact, uint32_t number);
  Status loadKernel(const k3::artifact::Kernel &encoded, CudaFunction &function);

  CudaDevice &device;
  std::vector<CudaModule> modules; ///< per executable; null for one that is not for a GPU
  std::vector<CudaFunction> kernels;
};

} // namespace k3rt

#endif // K3RT_DEVICE_CUDAKERNELS_H
