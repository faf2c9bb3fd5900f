//===- Device.cpp - where kernels run and what they work on --------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/Device.h"

namespace k3rt {

DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&other) noexcept {
  std::swap(owner, other.owner);
  std::swap(memory, other.memory);
  std::swap(length, other.length);
  std::swap(where, other.where);
  return *this;
}

Status DeviceBuffer::allocate(Device &device, uint64_t bytes,
                              const char *purpose, Place place) {
  void *fresh = nullptr;
  if (bytes != 0)
    K3RT_RETURN_IF_ERROR(place == Place::device
                             ? device.allocate(bytes, purpose, fresh)
                             : device.allocateHost(bytes, purpose, fresh));
  reset();
  owner = &device;
  memory = fresh;
  length = bytes;
  where = place;
  return Status();
}

void DeviceBuffer::reset() {
  if (memory && where == Place::device)
    owner->release(memory, length);
  else if (memory)
    owner->releaseHost(memory, length);
  memory = nullptr;
  length = 0;
}

} // namespace k3rt
