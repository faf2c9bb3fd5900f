//===- PtxSim.h - run PTX on the CPU ----------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// An interpreter for the PTX that our kernels consist of, so that their arithmetic and synchronisation can be tested on
/// machines without a GPU. Warps run in lockstep under masks, thread blocks one after the other. It is slow (some 10^7
/// warp instructions a second) and strict: it stops, naming line and thread, where a GPU would go on with wrong values:
///
/// * memory outside the launch's buffers or the block's shared memory, misaligned accesses, writes to read-only buffers;
/// * shared memory written by ordinary stores that wgmma or TMA reads without `fence.proxy.async` by the writer;
/// * shared memory written while a wgmma reads it; accumulators read before `wgmma.wait_group`;
/// * barriers in diverged warps, deadlocks, more tensor map bytes than a barrier expects.
///
/// Made for kernels with Hopper's asynchronous instructions; PtxMachine (test/unit/Codegen) does not know them, but finds
/// races between the ordinary accesses of kernels without. Copies (cp.async, TMA) happen late and in random order, warps are interleaved at random (`Options::seed`), shared memory
/// starts as NaN. Clusters of more than one block are not supported.
namespace k3::ptxsim {

/// Memory of the "device" that a launch may use: host pointers are device pointers.
struct Range {
  void *data;
  std::uint64_t bytes;
  bool writable = true;
};

/// What cuTensorMapEncodeTiled makes, in the simulator's own format; dimension 0 is the contiguous one.
struct TensorMap {
  std::uint64_t magic = 0x6b33746d61700001;
  void *base = nullptr;
  std::uint32_t rank = 0, elementBytes = 0;
  std::uint64_t dims[5] = {};
  std::uint64_t strides[5] = {}; ///< bytes; strides[0] is the element
  std::uint32_t box[5] = {};
  std::uint32_t swizzle = 0; ///< bytes: 0, 32, 64, 128
};
static_assert(sizeof(TensorMap) == 128);

struct Launch {
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::uint32_t threads = 32; ///< in x
  std::uint32_t dynamicSharedBytes = 0;
  std::vector<unsigned char> params; ///< laid out as the kernel declares them; see ParamBuilder
  std::vector<Range> memory;
};

struct Options {
  std::uint64_t seed = 1;
  /// Only these blocks (linear numbers, x fastest) run; empty: all.
  std::vector<std::uint64_t> blocks;
  std::uint64_t maxInstructions = 4'000'000'000; ///< per block, by warps
};

struct Statistics {
  std::uint64_t instructions = 0; ///< executed by warps
  std::uint64_t loadedBytes = 0, storedBytes = 0; ///< global memory, ordinary and bulk
};

struct Param {
  std::uint32_t offset, bytes;
};

class Kernel;

/// A parsed PTX module.
class Module {
public:
  /// Throws std::runtime_error with line and text of what is not understood.
  explicit Module(const std::string &ptx);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;
  std::vector<std::string> kernels() const;
  const std::vector<Param> &params(const std::string &kernel) const;
  /// Throws std::runtime_error where the kernel does something wrong.
  Statistics run(const std::string &kernel, const Launch &launch, const Options &options = {}) const;

private:
  const Kernel &find(const std::string &kernel) const;
  std::vector<std::unique_ptr<Kernel>> all;
};

/// Fills Launch::params in declaration order.
class ParamBuilder {
public:
  explicit ParamBuilder(const std::vector<Param> &params) : layout(params) {}
  ParamBuilder &add(const void *data, std::size_t bytes);
  template <typename T> ParamBuilder &value(T x) { return add(&x, sizeof(T)); }
  std::vector<unsigned char> take();

private:
  const std::vector<Param> &layout;
  std::size_t next = 0;
  std::vector<unsigned char> bytes;
};

} // namespace k3::ptxsim
