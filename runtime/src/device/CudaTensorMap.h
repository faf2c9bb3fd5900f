//===- CudaTensorMap.h - tiled views of tensors --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_CUDATENSORMAP_H
#define K3RT_DEVICE_CUDATENSORMAP_H

#include "runtime/schemas/k3_artifact_generated.h"
#include "runtime/src/device/CudaApi.h"

#include <vector>

namespace k3rt {

/// A dense, row-major tensor in a GPU's memory.
struct TensorView {
  void *address = nullptr;
  k3::artifact::DType dtype = k3::artifact::DType::F32;
  std::vector<int64_t> shape;
};

/// The view of `tensor` that `map`, which passed checkArtifact, describes. Error: K3RT_INTERNAL with what the driver
/// says.
Status encodeTensorMap(const CudaApi &cuda, const k3::artifact::TensorMap &map, const TensorView &tensor,
                       CudaTensorMap &out);

} // namespace k3rt

#endif // K3RT_DEVICE_CUDATENSORMAP_H
