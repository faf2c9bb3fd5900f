//===- Memory.h - large aligned allocations ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_MEMORY_H
#define K3RT_BASE_MEMORY_H

#include "runtime/src/base/Status.h"

#include <cstddef>
#include <cstdint>

namespace k3rt {

constexpr uint64_t bufferAlignment = 64;

/// `value` rounded up to a multiple of `alignment`; the caller knows that it
/// does not overflow.
constexpr uint64_t alignTo(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Anonymous memory, page-aligned and zero. `bytes` is not 0. Error:
/// K3RT_OUT_OF_MEMORY, naming `purpose` and the size.
Status mapMemory(uint64_t bytes, const char *purpose, void *&out);
void unmapMemory(void *memory, uint64_t bytes);

/// mapMemory that is given back with the object. Running out of address space is
/// a Status, not an exception.
class Allocation {
public:
  Allocation() = default;
  Allocation(Allocation &&other) noexcept { *this = std::move(other); }
  Allocation &operator=(Allocation &&other) noexcept;
  ~Allocation() { reset(); }

  /// Error: K3RT_OUT_OF_MEMORY, naming `purpose` and the size. Old contents are
  /// kept on failure and dropped on success.
  Status allocate(uint64_t bytes, const char *purpose);
  void reset();

  char *data() const { return static_cast<char *>(memory); }
  uint64_t size() const { return length; }

private:
  void *memory = nullptr;
  uint64_t length = 0;
};

} // namespace k3rt

#endif // K3RT_BASE_MEMORY_H
