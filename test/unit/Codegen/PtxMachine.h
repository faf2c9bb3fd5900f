//===- PtxMachine.h - run PTX on the CPU, one thread after the other ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// An interpreter for the PTX that the GPU code generator makes, so that kernels can be compared with the reference on
/// machines without a GPU. Blocks run one after the other in a random order, or all side by side where the launch is
/// resident; they and the warps of a block take turns at random, and what is asynchronous (cp.async, bulk copies, wgmma)
/// happens as early or as late as the seed decides. It is stricter than a GPU:
///  - every access must lie in memory that the caller has allowed, be aligned, and not write where that is forbidden;
///    ld.global.nc must not read memory that the kernel may write;
///  - shared memory that is read must have been written, and accesses of different threads to the same byte, one of them
///    a write, must be ordered: by barriers, mbarriers, waits for copies, or inside a warp by the warp's barrier;
///  - what ordinary stores have written is read by wgmma and bulk copies only after fence.proxy.async;
///  - a kernel with griddepcontrol.wait, which may run beside the one in front of it, touches global memory only in threads
///    that have executed it, and all its threads do;
///  - accesses of blocks that run side by side to the same byte, one of them a write and not both atomic, must be ordered by
///    a release of the one and an acquire of the other, of one place and of the device's scope (in instructions, or by
///    fences around relaxed ones); bulk copies do not read what another block writes, nor it what they write;
///  - nobody may wait for ever for what another block does: not where all wait, nor where blocks run one after the other;
///  - the threads named by a shuffle's or matrix instruction's mask must all arrive at the same instruction, and no thread
///    may leave while others wait at a barrier; a block ends only when its wgmma and bulk copies have been waited for.
/// Approximate instructions (ex2.approx and the like) give the correctly rounded value, tensor cores the exact sum of an
/// instruction's products rounded once; clusters have one block; and nothing is said about time.
namespace k3::test {

/// What the kernel did wrong, or an instruction that the machine does not know, with the line of PTX.
class PtxError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

struct PtxProgram;

/// What stands in for a CUtensorMap as a kernel parameter.
struct alignas(64) PtxTensorMap {
  static constexpr std::uint64_t mark = 0x50414d524f534e54;
  std::uint64_t magic = mark;
  const void *address = nullptr;
  std::uint32_t elementBytes = 2, rank = 2, swizzleBytes = 0;
  /// As cuTensorMapEncodeTiled takes them: innermost dimension first, in elements; strides in bytes from dimension 1 on.
  std::uint32_t sizes[5] = {}, box[5] = {};
  std::uint64_t strides[4] = {};
};
static_assert(sizeof(PtxTensorMap) == 128);

class PtxMachine {
public:
  /// Throws PtxError if the text has anything that the machine does not know.
  explicit PtxMachine(const std::string &ptx);
  ~PtxMachine();
  PtxMachine(const PtxMachine &) = delete;
  PtxMachine &operator=(const PtxMachine &) = delete;

  /// Memory that kernels may read and, if `writable`, write.
  void allow(const void *data, std::size_t bytes, bool writable);

  struct Launch {
    std::string kernel;
    std::array<std::uint32_t, 3> grid = {1, 1, 1};
    std::uint32_t threads = 1;
    std::size_t dynamicShared = 0;
    /// One entry per kernel parameter: its bytes.
    std::vector<std::vector<std::uint8_t>> params;
    unsigned seed = 1;
    bool resident = false; ///< all blocks run side by side
  };
  /// Throws PtxError.
  void run(const Launch &launch);

  struct Region {
    std::uint64_t begin, end;
    bool writable;
  };

private:
  std::unique_ptr<PtxProgram> program;
  std::vector<Region> regions;
};

/// Runs one kernel on the given memory; the message of what went wrong, or nothing. For callers without exceptions.
std::string simulatePtx(const std::string &ptx, const PtxMachine::Launch &launch,
                        const std::vector<PtxMachine::Region> &memory);

} // namespace k3::test
