//===- Memory.cpp - large aligned allocations ----------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/Memory.h"

#include <sys/mman.h>

namespace k3rt {

Status mapMemory(uint64_t bytes, const char *purpose, void *&out) {
  constexpr uint64_t hugePage = 2u << 20;
  void *fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED)
    return makeError(K3RT_OUT_OF_MEMORY, "cannot allocate %llu bytes for %s",
                     static_cast<unsigned long long>(bytes), purpose);
  if (bytes >= hugePage)
    madvise(fresh, bytes, MADV_HUGEPAGE);
  out = fresh;
  return Status();
}

void unmapMemory(void *memory, uint64_t bytes) { munmap(memory, bytes); }

Allocation &Allocation::operator=(Allocation &&other) noexcept {
  std::swap(memory, other.memory);
  std::swap(length, other.length);
  return *this;
}

Status Allocation::allocate(uint64_t bytes, const char *purpose) {
  void *fresh = nullptr;
  if (bytes != 0)
    K3RT_RETURN_IF_ERROR(mapMemory(bytes, purpose, fresh));
  reset();
  memory = fresh;
  length = bytes;
  return Status();
}

void Allocation::reset() {
  if (memory)
    unmapMemory(memory, length);
  memory = nullptr;
  length = 0;
}

} // namespace k3rt
