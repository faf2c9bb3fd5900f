//===- Device.h - where kernels run and what they work on ----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_DEVICE_H
#define K3RT_DEVICE_DEVICE_H

#include "runtime/src/base/Memory.h"

#include <functional>

namespace k3rt {

/// Memory of a processor and the order of what is done with it. Addresses are
/// the device's own: the host may look at them only where isHost().
///
/// Operations without a Status cannot fail in a way the caller could do
/// something about: after the first failure the device is lost, nothing is done
/// any more, and every call with a Status returns that failure.
class Device {
public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// As the user names it: "cpu", "cuda:0".
  virtual const char *name() const = 0;
  /// Whether its memory is the host's.
  virtual bool isHost() const = 0;

  /// Memory of the device, at a multiple of 256 bytes, contents undefined.
  /// `bytes` is not 0. Error: K3RT_OUT_OF_MEMORY, naming `purpose` and the
  /// size.
  virtual Status allocate(uint64_t bytes, const char *purpose, void *&out) = 0;
  virtual void release(void *memory, uint64_t bytes) = 0;
  /// Memory of the host that upload and download are fastest with.
  virtual Status allocateHost(uint64_t bytes, const char *purpose,
                              void *&out) = 0;
  virtual void releaseHost(void *memory, uint64_t bytes) = 0;

  // These happen in the order of the calls, kernels included. Host memory given
  // to upload or download is the device's until finish().
  virtual void upload(void *to, const void *from, uint64_t bytes) = 0;
  /// Uploads bytes that do not exist yet: make(out, begin, count) writes [begin,
  /// begin + count) of them, for any number of pieces at the same time on
  /// different threads. `begin` is a multiple of 64.
  using Maker =
      std::function<void(char *out, uint64_t begin, uint64_t count)>;
  virtual void uploadMade(void *to, uint64_t bytes, const Maker &make) = 0;
  virtual void download(void *to, const void *from, uint64_t bytes) = 0;
  virtual void copy(void *to, const void *from, uint64_t bytes) = 0;
  virtual void fill(void *to, uint8_t byte, uint64_t bytes) = 0;
  /// Returns when all of it has happened, with the failure if the device is
  /// lost.
  virtual Status finish() = 0;

  /// Of a GPU: all its memory, what is free for anyone, now and when the device
  /// was opened, and what has been allocated here.
  struct Memory {
    uint64_t total = 0, free = 0, freeAtOpen = 0, allocated = 0;
  };
  virtual Memory memory() { return Memory(); }
  /// Of a GPU: what it is and can do at most.
  struct Processor {
    std::string model;
    uint32_t capabilityMajor = 0, capabilityMinor = 0, multiprocessors = 0;
    double clockHz = 0, memoryBytesPerSecond = 0;
  };
  const Processor &processor() const { return facts; }

protected:
  Processor facts;
};

/// Memory that belongs to a device, or to the host for its transfers; given
/// back with the object, which the device outlives.
class DeviceBuffer {
public:
  enum class Place : uint8_t { device, host };

  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer &&other) noexcept { *this = std::move(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept;
  ~DeviceBuffer() { reset(); }

  /// Error: K3RT_OUT_OF_MEMORY. Old contents are kept on failure and dropped on
  /// success.
  Status allocate(Device &device, uint64_t bytes, const char *purpose,
                  Place place = Place::device);
  void reset();

  char *data() const { return static_cast<char *>(memory); }
  uint64_t size() const { return length; }

private:
  Device *owner = nullptr;
  void *memory = nullptr;
  uint64_t length = 0;
  Place where = Place::device;
};

} // namespace k3rt

#endif // K3RT_DEVICE_DEVICE_H
