//===- PtxGpu.h - the interpreter of PTX as a GPU for cases -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Gpu.h"
#include "test/unit/Codegen/PtxMachine.h"

namespace k3::test {

/// The map of an array's memory with as many dimensions as the box, outer ones folded.
PtxTensorMap makeTensorMap(const void *memory, const std::string &dtype, const std::vector<gpu::Index> &shape,
                           const std::vector<std::uint32_t> &box, std::uint32_t swizzle);

/// Lets all blocks run side by side: as many as fit on a device of 1 to 4 multiprocessors, which the seed picks.
void makeResident(PtxMachine::Launch &launch);

/// Plays cases whose kernels are PTX (K3_EXPORT_PTX) with every argument in memory of its own. Memory is the host's, and
/// kernels write only what a launch says they do. Every launch takes its threads in another order.
class PtxGpu : public gpu::Gpu {
public:
  ~PtxGpu() override;
  std::string name() const override { return "an interpreter of PTX"; }
  Address allocate(std::uint64_t bytes) override;
  void release(Address memory) override;
  void upload(Address to, const void *from, std::uint64_t bytes) override;
  void download(void *to, Address from, std::uint64_t bytes) override;
  void copy(Address to, Address from, std::uint64_t bytes) override;
  void fill(Address to, unsigned char byte, std::uint64_t bytes) override;
  Function load(const gpu::Kernel &kernel, const unsigned char *ptx, std::uint64_t bytes) override;
  void launch(const Launch &launch) override;
  void finish() override {}
  /// Nothing can be said about time.
  double time(const std::vector<Launch> &, int) override { return 0; }

private:
  struct Code {
    std::string entry, ptx;
  };
  std::vector<Code> loaded;
  std::map<Address, std::uint64_t> memory;
  unsigned launches = 0;
};

} // namespace k3::test
