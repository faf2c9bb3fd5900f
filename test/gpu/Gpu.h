//===- Gpu.h - what replaying cases needs of a GPU -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/CaseFile.h"

#include <optional>
#include <stdexcept>

namespace k3::gpu {

/// The device refused or failed. After a failed kernel nothing works any more in this process: `lost`.
class GpuError : public std::runtime_error {
public:
  GpuError(const std::string &message, bool lost) : std::runtime_error(message), lost(lost) {}
  bool lost;
};

/// Memory, kernels and time of one device. All of it happens in the order of the calls. Every member may throw
/// GpuError.
class Gpu {
public:
  using Address = std::uint64_t;
  using Function = std::uint64_t;

  /// A tensor map over memory that holds [rows, columns] (or [slices, rows, columns]) elements.
  struct Map {
    Address memory = 0;
    std::string dtype;
    std::vector<Index> shape;
    std::vector<std::uint32_t> box;
    std::uint32_t swizzle = 0;
  };
  struct Launch {
    Function function = 0;
    std::array<std::uint32_t, 3> grid{1, 1, 1};
    std::uint32_t threads = 0, dynamicSharedBytes = 0, cluster = 1;
    bool early = false;                    ///< may begin before the launch in front has ended
    /// Blocks wait for each other: no more of them than the device runs at once.
    bool resident = false;
    /// Addresses and bytes that are set to 0 before.
    std::vector<std::pair<Address, std::uint64_t>> cleared;
    std::vector<std::uint64_t> parameters; ///< addresses, then scalars
    std::vector<Map> maps;                 ///< parameters after those
    std::vector<Address> written;          ///< arguments that it may write; for checkers
  };

  virtual ~Gpu() = default;
  virtual std::string name() const = 0;
  virtual Address allocate(std::uint64_t bytes) = 0;
  virtual void release(Address memory) = 0;
  virtual void upload(Address to, const void *from, std::uint64_t bytes) = 0;
  virtual void download(void *to, Address from, std::uint64_t bytes) = 0;
  virtual void copy(Address to, Address from, std::uint64_t bytes) = 0;
  virtual void fill(Address to, unsigned char byte, std::uint64_t bytes) = 0;
  virtual Function load(const Kernel &kernel, const unsigned char *cubin, std::uint64_t bytes) = 0;
  virtual void launch(const Launch &launch) = 0;
  virtual void finish() = 0;
  /// Seconds of one of `launches`, which are run one after the other from a graph: median of `samples` replays, without
  /// what clearing alone takes.
  virtual double time(const std::vector<Launch> &launches, int samples) = 0;

  /// out[rows, n] = x[rows, k] weight[n, k]^T; x and weight are bf16, out is bf16 or f32.
  struct Product {
    Address x = 0, weight = 0, out = 0;
    Index rows = 0, n = 0, k = 0;
    std::string outDtype;
  };
  /// Seconds of one of `products` in turn by the vendor's library, median of `samples`; nothing where it is not there.
  virtual std::optional<double> timeByLibrary(const std::vector<Product> &, int) { return std::nullopt; }
};

/// Memory that is given back.
class GpuMemory {
public:
  GpuMemory(Gpu &gpu, std::uint64_t bytes) : gpu(gpu), start(bytes ? gpu.allocate(bytes) : 0), size(bytes) {}
  ~GpuMemory();
  GpuMemory(const GpuMemory &) = delete;
  GpuMemory &operator=(const GpuMemory &) = delete;
  Gpu::Address address() const { return start; }
  std::uint64_t bytes() const { return size; }

private:
  Gpu &gpu;
  Gpu::Address start;
  std::uint64_t size;
};

} // namespace k3::gpu
