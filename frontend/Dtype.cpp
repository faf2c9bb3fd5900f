//===- Dtype.cpp - element types of checkpoint tensors --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/Dtype.h"

#include <cassert>
#include <iterator>

namespace k3::frontend {

namespace {
struct DtypeRow {
  const char *name;
  unsigned bits;
};
} // namespace

// In the order of the enum.
static constexpr DtypeRow dtypeRows[] = {
    {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16},        {"F16", 16},        {"BF16", 16},   {"I32", 32},
    {"U32", 32},        {"F32", 32},        {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};
static_assert(std::size(dtypeRows) == static_cast<size_t>(Dtype::U64) + 1);

unsigned bitWidth(Dtype dtype) {
  return dtypeRows[static_cast<size_t>(dtype)].bits;
}

const char *dtypeName(Dtype dtype) {
  return dtypeRows[static_cast<size_t>(dtype)].name;
}

std::optional<Dtype> dtypeFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(dtypeRows); ++i)
    if (name == dtypeRows[i].name)
      return static_cast<Dtype>(i);
  return std::nullopt;
}

} // namespace k3::frontend
