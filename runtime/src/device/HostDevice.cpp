//===- HostDevice.cpp - the CPU as a device ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/HostDevice.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

Status HostDevice::allocate(uint64_t bytes, const char *purpose, void *&out) {
  return mapMemory(bytes, purpose, out);
}

void HostDevice::release(void *memory, uint64_t bytes) {
  unmapMemory(memory, bytes);
}

void HostDevice::copy(void *to, const void *from, uint64_t bytes) {
  if (bytes != 0)
    memcpy(to, from, bytes);
}

void HostDevice::fill(void *to, uint8_t byte, uint64_t bytes) {
  constexpr uint64_t pieceBytes = 1u << 20;
  uint64_t pieces = (bytes + pieceBytes - 1) / pieceBytes;
  // Memory that could be allocated has fewer pieces than 32 bits can count.
  threads.parallelFor(uint32_t(pieces),
                      [&](uint32_t first, uint32_t last, uint32_t) {
                        uint64_t begin = first * pieceBytes;
                        uint64_t end = std::min(last * pieceBytes, bytes);
                        memset(static_cast<char *>(to) + begin, byte,
                               end - begin);
                      });
}

} // namespace k3rt
