//===- Draw.cpp - pseudo-random values that need not be stored -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Draw.h"

#include <random>

using namespace k3::gpu;

std::vector<double> Draw::values(std::size_t count) const {
  std::mt19937_64 engine(seed * 0x9e3779b97f4a7c15u + call);
  std::vector<double> out(count);
  switch (kind) {
  case Kind::normal: {
    std::normal_distribution<double> distribution(0, a);
    for (double &x : out)
      x = static_cast<float>(distribution(engine));
    break;
  }
  case Kind::uniform: {
    std::uniform_real_distribution<double> distribution(a, b);
    for (double &x : out)
      x = static_cast<float>(distribution(engine));
    break;
  }
  case Kind::integer: {
    std::uniform_int_distribution<std::int64_t> distribution(static_cast<std::int64_t>(a),
                                                             static_cast<std::int64_t>(b));
    for (double &x : out)
      x = static_cast<double>(distribution(engine));
    break;
  }
  }
  return out;
}
