//===- WeightValues.cpp - checks of stored weight values ------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "frontend/WeightValues.h"
#include "frontend/Text.h"

#include <cstring>

namespace k3::frontend {

/// "[3, 17]": the coordinates of element `index`.
static std::string position(uint64_t index, const std::vector<int64_t> &shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    uint64_t extent = static_cast<uint64_t>(shape[i]);
    at[i] = static_cast<int64_t>(index % extent);
    index /= extent;
  }
  return shapeText(at);
}

static uint64_t elementCount(const std::vector<int64_t> &shape) {
  uint64_t count = 1;
  for (int64_t extent : shape)
    count *= static_cast<uint64_t>(extent);
  return count;
}

static std::string place(const std::string &tensor, const std::string &file) {
  return printable(file) + ": tensor " + quote(tensor) + ": ";
}

Status checkScales(const uint8_t *bytes, const std::vector<int64_t> &shape,
                   const std::string &tensor, const std::string &file) {
  const uint64_t count = elementCount(shape);
  const void *bad = count ? std::memchr(bytes, 0xFF, count) : nullptr;
  if (!bad)
    return Status::success();
  uint64_t index =
      static_cast<uint64_t>(static_cast<const uint8_t *>(bad) - bytes);
  return Status::error(place(tensor, file) + "scale at " +
                       position(index, shape) +
                       " is 0xFF (NaN), wanted 0x00 to 0xFE");
}

Status checkFinite(const void *bytes, Dtype dtype,
                   const std::vector<int64_t> &shape, const std::string &tensor,
                   const std::string &file) {
  // All exponent bits set means NaN or infinity.
  uint32_t exponent = dtype == Dtype::F32    ? 0x7f800000u
                      : dtype == Dtype::BF16 ? 0x7f80u
                      : dtype == Dtype::F16  ? 0x7c00u
                                             : 0u;
  if (exponent == 0)
    return Status::success();
  const uint64_t count = elementCount(shape);
  const char *cursor = static_cast<const char *>(bytes);
  const size_t width = bitWidth(dtype) / 8;
  for (uint64_t i = 0; i < count; ++i, cursor += width) {
    uint32_t bits = 0;
    std::memcpy(&bits, cursor, width);
    if ((bits & exponent) != exponent)
      continue;
    uint32_t mantissa = bits & (exponent == 0x7f800000u ? 0x7fffffu
                                : exponent == 0x7f80u   ? 0x7fu
                                                        : 0x3ffu);
    return Status::error(
        place(tensor, file) + "value at " + position(i, shape) + " is " +
        (mantissa ? "NaN" : "infinite") + ", wanted a finite number");
  }
  return Status::success();
}

Status checkALogPadding(const void *bytes, Dtype dtype, int64_t count,
                        int64_t heads, const std::string &tensor,
                        const std::string &file) {
  const char *cursor = static_cast<const char *>(bytes);
  const size_t width = bitWidth(dtype) / 8;
  const uint32_t magnitude = width == 4 ? 0x7fffffffu : 0x7fffu;
  for (int64_t i = heads; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, cursor + static_cast<size_t>(i) * width, width);
    if (bits & magnitude)
      return Status::error(place(tensor, file) + "entry " + std::to_string(i) +
                           " is not zero, wanted zero padding after the " +
                           std::to_string(heads) + " heads");
  }
  return Status::success();
}

} // namespace k3::frontend
