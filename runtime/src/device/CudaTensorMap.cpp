//===- CudaTensorMap.cpp - tiled views of tensors ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaTensorMap.h"
#include "runtime/src/artifact/DType.h"

#include <algorithm>

namespace k3rt {

namespace schema = k3::artifact;

static CudaTensorMapType typeOf(schema::DType dtype) {
  switch (dtype) {
  case schema::DType::F32:
    return CudaTensorMapType::f32;
  case schema::DType::BF16:
    return CudaTensorMapType::bf16;
  case schema::DType::I8:
  case schema::DType::U8:
    return CudaTensorMapType::u8;
  case schema::DType::I32:
    return CudaTensorMapType::i32;
  }
  __builtin_unreachable(); // checkArtifact knows all types
}

static CudaTensorMapSwizzle swizzleOf(uint32_t bytes) {
  switch (bytes) {
  case 32:
    return CudaTensorMapSwizzle::bytes32;
  case 64:
    return CudaTensorMapSwizzle::bytes64;
  case 128:
    return CudaTensorMapSwizzle::bytes128;
  default:
    return CudaTensorMapSwizzle::none;
  }
}

Status encodeTensorMap(const CudaApi &cuda, const schema::TensorMap &map, const TensorView &tensor,
                       CudaTensorMap &out) {
  constexpr size_t maxRank = 5;
  // The driver wants the innermost dimension first.
  uint32_t rank = map.box()->size();
  uint64_t sizes[maxRank], strides[maxRank];
  uint32_t box[maxRank], elementStrides[maxRank];
  size_t dimension = tensor.shape.size();
  uint64_t bytes = elementBytes(tensor.dtype);
  for (uint32_t i = 0; i < rank; ++i) {
    // An empty tensor is never looked at, but there is no view of it.
    sizes[i] = uint64_t(std::max<int64_t>(tensor.shape[--dimension], 1));
    while (i + 1 == rank && dimension != 0)
      sizes[i] *= uint64_t(std::max<int64_t>(tensor.shape[--dimension], 1));
    bytes *= sizes[i];
    strides[i] = bytes; // from one index of the next dimension to the following
    box[i] = map.box()->Get(rank - 1 - i);
    elementStrides[i] = 1;
  }
  CudaResult result = cuda.tensorMapEncodeTiled(&out, typeOf(tensor.dtype), rank, tensor.address, sizes, strides, box,
                                                elementStrides, CudaTensorMapInterleave::none, swizzleOf(map.swizzle()),
                                                CudaTensorMapPromotion::bytes256, CudaTensorMapFill::zeros);
  if (result == CudaResult::success)
    return Status();
  std::string text;
  for (int64_t size : tensor.shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return makeError(K3RT_INTERNAL, "no view of %s [%s]: %s", EnumNameDType(tensor.dtype), text.c_str(),
                   cuda.describe(result).c_str());
}

} // namespace k3rt
