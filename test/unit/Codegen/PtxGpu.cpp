//===- PtxGpu.cpp - the interpreter of PTX as a GPU for cases ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/unit/Codegen/PtxGpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace k3;
using namespace k3::test;

PtxTensorMap k3::test::makeTensorMap(const void *memory, const std::string &dtype, const std::vector<gpu::Index> &shape,
                                     const std::vector<std::uint32_t> &box, std::uint32_t swizzle) {
  PtxTensorMap map;
  map.address = memory;
  map.elementBytes = static_cast<std::uint32_t>(gpu::elementBytes(dtype));
  map.rank = static_cast<std::uint32_t>(box.size());
  map.swizzleBytes = swizzle;
  std::fill_n(map.sizes, map.rank, 1);
  std::size_t dims = shape.size();
  for (std::size_t i = 0; i < dims; ++i)
    map.sizes[std::min<std::size_t>(i, map.rank - 1)] *= static_cast<std::uint32_t>(shape[dims - 1 - i]);
  for (std::uint32_t i = 0; i < map.rank; ++i)
    map.box[i] = box[map.rank - 1 - i];
  for (std::uint32_t i = 0; i + 1 < map.rank; ++i)
    map.strides[i] = (i ? map.strides[i - 1] : map.elementBytes) * map.sizes[i];
  return map;
}

void k3::test::makeResident(PtxMachine::Launch &launch) {
  launch.resident = true;
  launch.grid[0] = std::min(launch.grid[0], 1 + launch.seed % 4);
}

PtxGpu::~PtxGpu() {
  for (auto [address, bytes] : memory)
    std::free(reinterpret_cast<void *>(address));
}

gpu::Gpu::Address PtxGpu::allocate(std::uint64_t bytes) {
  auto address = reinterpret_cast<Address>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  memory[address] = bytes;
  return address;
}

void PtxGpu::release(Address address) {
  memory.erase(address);
  std::free(reinterpret_cast<void *>(address));
}

void PtxGpu::upload(Address to, const void *from, std::uint64_t bytes) {
  if (bytes)
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
}

void PtxGpu::download(void *to, Address from, std::uint64_t bytes) {
  if (bytes)
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
}

void PtxGpu::copy(Address to, Address from, std::uint64_t bytes) {
  if (bytes)
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
}

void PtxGpu::fill(Address to, unsigned char byte, std::uint64_t bytes) {
  if (bytes)
    std::memset(reinterpret_cast<void *>(to), byte, bytes);
}

gpu::Gpu::Function PtxGpu::load(const gpu::Kernel &kernel, const unsigned char *ptx, std::uint64_t bytes) {
  loaded.push_back({kernel.entry, {reinterpret_cast<const char *>(ptx), bytes}});
  return loaded.size() - 1;
}

template <typename T> static std::vector<std::uint8_t> bytesOf(const T &value) {
  auto *first = reinterpret_cast<const std::uint8_t *>(&value);
  return {first, first + sizeof value};
}

void PtxGpu::launch(const Launch &launch) {
  for (auto [address, bytes] : launch.cleared)
    fill(address, 0, bytes);
  const Code &code = loaded.at(launch.function);
  PtxMachine::Launch run;
  run.kernel = code.entry;
  run.grid = launch.grid;
  run.threads = launch.threads;
  run.dynamicShared = launch.dynamicSharedBytes;
  run.seed = ++launches;
  if (launch.resident)
    makeResident(run);
  for (std::uint64_t parameter : launch.parameters)
    run.params.push_back(bytesOf(parameter));
  for (const Map &map : launch.maps)
    run.params.push_back(bytesOf(
        makeTensorMap(reinterpret_cast<const void *>(map.memory), map.dtype, map.shape, map.box, map.swizzle)));
  std::vector<PtxMachine::Region> regions;
  for (auto [address, bytes] : memory)
    regions.push_back({address, address + bytes,
                       std::find(launch.written.begin(), launch.written.end(), address) != launch.written.end()});
  if (std::string error = simulatePtx(code.ptx, run, regions); !error.empty())
    throw gpu::GpuError(error, false);
}
