//===- HostDevice.h - the CPU as a device --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_HOSTDEVICE_H
#define K3RT_DEVICE_HOSTDEVICE_H

#include "runtime/src/base/ThreadPool.h"
#include "runtime/src/device/Device.h"

namespace k3rt {

/// Everything has happened when a call returns. Memory comes as zeros.
class HostDevice : public Device {
public:
  /// `threads` fills large memory.
  explicit HostDevice(ThreadPool &threads) : threads(threads) {}

  const char *name() const override { return "cpu"; }
  bool isHost() const override { return true; }
  Status allocate(uint64_t bytes, const char *purpose, void *&out) override;
  void release(void *memory, uint64_t bytes) override;
  Status allocateHost(uint64_t bytes, const char *purpose,
                      void *&out) override {
    return allocate(bytes, purpose, out);
  }
  void releaseHost(void *memory, uint64_t bytes) override {
    release(memory, bytes);
  }
  void upload(void *to, const void *from, uint64_t bytes) override {
    copy(to, from, bytes);
  }
  void uploadMade(void *to, uint64_t bytes, const Maker &make) override {
    make(static_cast<char *>(to), 0, bytes);
  }
  void download(void *to, const void *from, uint64_t bytes) override {
    copy(to, from, bytes);
  }
  void copy(void *to, const void *from, uint64_t bytes) override;
  void fill(void *to, uint8_t byte, uint64_t bytes) override;
  Status finish() override { return Status(); }

private:
  ThreadPool &threads;
};

} // namespace k3rt

#endif // K3RT_DEVICE_HOSTDEVICE_H
