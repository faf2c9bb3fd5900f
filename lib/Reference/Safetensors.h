//===- Safetensors.h - A plain reader of safetensors files ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "lib/Reference/View.h"

#include <map>
#include <string>

/// Independent of the frontend's reader on purpose. It copies every tensor into memory and serves golden values and
/// small checkpoints, nothing else.
namespace k3::ref {

struct Tensor {
  std::string dtype; ///< as in the header: F32, BF16, I32, I64, U8, ...
  std::vector<Index> shape;
  std::vector<std::uint8_t> bytes;

  Index size() const; ///< number of elements; 1 for shape ()
  /// F32 or BF16 as float, exactly.
  std::vector<float> floats() const;
  /// I32 or I64 whose values fit, as int32.
  std::vector<std::int32_t> ints() const;
};

using Tensors = std::map<std::string, Tensor>;

/// Adds the tensors of a file to `tensors`. Returns an empty string, or one line saying what is wrong.
std::string readSafetensors(const std::string &path, Tensors &tensors);

} // namespace k3::ref
