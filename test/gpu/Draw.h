//===- Draw.h - pseudo-random values that need not be stored ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace k3::gpu {

/// Values that follow from a few numbers, so that a case file names them instead of holding them. The distributions are
/// those of the C++ library: drawn alike by programs of one build.
struct Draw {
  enum class Kind : std::uint8_t {
    normal,  ///< mean 0, standard deviation `a`, rounded to f32
    uniform, ///< in [a, b), rounded to f32
    integer, ///< whole numbers from a to b inclusive
  };
  Kind kind = Kind::normal;
  std::uint64_t seed = 0;
  std::uint64_t call = 0; ///< draws of one seed are independent of each other
  double a = 1, b = 0;

  std::vector<double> values(std::size_t count) const;
};

} // namespace k3::gpu
