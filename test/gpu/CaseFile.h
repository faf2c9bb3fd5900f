//===- CaseFile.h - kernels with arguments and expected results ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Draw.h"

#include <array>
#include <string>
#include <unordered_map>

/// What the kernel tests write on a machine with a compiler, and k3-gpu-player replays on a machine with a GPU: a JSON
/// file for people and a data file of the same name for bytes. No LLVM on either side.
namespace k3::gpu {

using Index = std::int64_t;
using Bytes = std::vector<unsigned char>;

/// A run of the data file.
struct Blob {
  std::uint64_t offset = 0, length = 0;
};

/// Where kernels must not read or write, and what they must fill: NaN as f32 and as bf16, -1 as an integer.
constexpr unsigned char poison = 0xFF;

/// What an argument holds before the run.
struct Content {
  enum class Kind : std::uint8_t { poison, stored, drawn, produced };
  Kind kind = Kind::poison;
  Blob blob;
  Draw draw;
  /// Elements drawn; the argument repeats them as often as it has room. Tensors of gigabytes are made like that.
  std::uint64_t period = 0;
  /// Produced: what the first kernel of an earlier case leaves in one of its arguments.
  std::uint32_t run = 0, argument = 0;
};

struct Argument {
  std::string dtype; ///< f32, bf16, i32, i8
  std::vector<Index> shape;
  bool writes = false;
  /// One; or, for a table of pointers, one for each entry of shape[0].
  std::vector<Content> contents;
  bool isTable = false;
  Index elements() const;
  std::uint64_t bytes() const; ///< of the elements, of all members
};

struct TensorMap {
  std::uint32_t argument = 0;
  std::vector<std::uint32_t> box;
  std::uint32_t swizzle = 0;
};

/// One function of a cubin. Parameters: a pointer per argument, the scalars as i64, the tensor maps by value.
struct Kernel {
  std::string op, strategy, entry;
  Blob cubin;
  std::uint32_t threads = 0, dynamicSharedBytes = 0, cluster = 1;
  std::vector<TensorMap> tensorMaps;
  std::uint32_t registers = 0, staticSharedBytes = 0, spillBytes = 0, stackBytes = 0;
  /// It waits for the kernel in front of it by itself.
  bool startsEarly = false;
  /// Its blocks wait for each other; any number of them along x will do.
  bool resident = false;
};

/// One of several kernels that must all do what the case expects.
struct Variant {
  std::uint32_t kernel = 0;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
};

/// An element passes if it differs by no more than the sum of these; with all 0 it must be equal. What is expected to
/// be NaN must be NaN.
struct Tolerance {
  double ofLargest = 0; ///< times the largest magnitude that is expected anywhere
  double ofOwn = 0;     ///< times the magnitude of this element
  double absolute = 0;
};

struct Expectation {
  std::uint32_t argument = 0;
  Blob values;    ///< f32, or i32 for an integer argument
  Blob positions; ///< i64 flat indices of the values; none: all elements, or those of the argument's Sample
  Blob sums;      ///< f32, of the blocks of the argument's Sample; none: it is not sampled
  /// Of all that is expected where only a part is in `values`; 0: none but those.
  double largest = 0;
  Blob mask; ///< a byte for each value, 0 = any; none: all count
  Tolerance tolerance;
};

struct Case {
  std::string test;
  std::vector<Variant> variants;
  std::vector<Argument> arguments;
  std::vector<Index> scalars;
  std::vector<Expectation> expectations;
  /// Least traffic with device memory and operations of a run; 0 = not timed.
  double trafficBytes = 0, operations = 0;
  /// Which peak bounds the operations: "bf16" or "f32".
  std::string peak = "bf16";
};

struct CaseSet {
  std::vector<Kernel> kernels;
  std::vector<Case> cases;
  Bytes data;

  const unsigned char *at(Blob blob) const { return data.data() + blob.offset; }
  /// Bytes that are there already are not stored again.
  Blob store(const void *bytes, std::size_t length);

  /// Writes `path` and the data file beside it (".json" replaced by ".bin"); false with `error`.
  bool write(const std::string &path, std::string &error) const;
  /// False with `error` also where a run of the data file does not exist or a number names nothing.
  bool read(const std::string &path, std::string &error);

private:
  std::unordered_multimap<std::size_t, Blob> stored; ///< by hash
};

std::uint64_t elementBytes(const std::string &dtype);
/// Round to nearest even.
std::uint16_t toBf16(float value);
float fromBf16(std::uint16_t bits);
/// Elements of `dtype` with these values; f32 and bf16 are rounded.
Bytes encode(const std::string &dtype, const std::vector<double> &values);
std::vector<double> decode(const std::string &dtype, const unsigned char *bytes, std::size_t count);

} // namespace k3::gpu
