//===- Dtype.h - element types of checkpoint tensors ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_FRONTEND_DTYPE_H
#define K3_FRONTEND_DTYPE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace k3::frontend {

/// The element types a safetensors header can name, under its own names.
enum class Dtype : uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E5M2FNUZ,
  F8_E4M3FNUZ,
  F8_E8M0,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64,
};

/// Bits of one element: 4 (F4), 6, 8, 16, 32 or 64.
unsigned bitWidth(Dtype dtype);

/// The name in a safetensors header, e.g. "BF16".
const char *dtypeName(Dtype dtype);

/// The dtype of that name, or nullopt.
std::optional<Dtype> dtypeFromName(std::string_view name);

} // namespace k3::frontend

#endif // K3_FRONTEND_DTYPE_H
