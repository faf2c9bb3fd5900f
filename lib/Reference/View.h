//===- View.h - Read-only arrays of float or double for the reference -----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

/// The scalar fp64 meaning of every structured op, and of the whole model. Nothing here shares code with the compiler,
/// the frontend or the runtime, so each of them can be tested against it.
///
/// Conventions: all arrays are dense and row-major; [T,H,K] is the shape in the comment and the sizes come in a struct.
/// Inputs are Views of float or double, results and states are Vecs of double. A wrong size is a mistake of the caller:
/// one line on stderr, then abort.
namespace k3::ref {

using Index = std::int64_t;
using Vec = std::vector<double>;

/// Aborts with `message` unless `condition` holds.
void require(bool condition, const char *message);

/// A read-only array of float or double; elements are widened to double when read. Does not own its elements. An empty
/// view stands for an absent operand.
class View {
public:
  View() = default;
  View(const float *data, Index size) : f32(data), count(size) {}
  View(const double *data, Index size) : f64(data), count(size) {}
  View(const std::vector<float> &data) : View(data.data(), static_cast<Index>(data.size())) {}
  View(const std::vector<double> &data) : View(data.data(), static_cast<Index>(data.size())) {}

  Index size() const { return count; }
  bool empty() const { return count == 0; }
  double operator[](Index i) const {
    assert(i >= 0 && i < count);
    return f64 ? f64[i] : static_cast<double>(f32[i]);
  }
  /// The elements [offset, offset + size).
  View slice(Index offset, Index size) const {
    assert(offset >= 0 && size >= 0 && offset + size <= count);
    return f64 ? View(f64 + offset, size) : View(f32 ? f32 + offset : f32, size);
  }
  Vec toVec() const {
    Vec out(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i)
      out[i] = (*this)[i];
    return out;
  }

private:
  const float *f32 = nullptr;
  const double *f64 = nullptr;
  Index count = 0;
};

/// A read-only array of 32-bit integers: token ids, expert ids, sequence boundaries.
class IntView {
public:
  IntView() = default;
  IntView(const std::int32_t *data, Index size) : ptr(data), count(size) {}
  IntView(const std::vector<std::int32_t> &data) : IntView(data.data(), static_cast<Index>(data.size())) {}

  Index size() const { return count; }
  Index operator[](Index i) const {
    assert(i >= 0 && i < count);
    return ptr[i];
  }

private:
  const std::int32_t *ptr = nullptr;
  Index count = 0;
};

/// Requires that `boundaries` [N+1] cut `tokens` packed tokens into N sequences: first 0, last `tokens`, never falling.
void requireBoundaries(IntView boundaries, Index tokens);

} // namespace k3::ref
