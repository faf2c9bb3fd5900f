//===- CudaDevice.h - an NVIDIA GPU as a device --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_CUDADEVICE_H
#define K3RT_DEVICE_CUDADEVICE_H

#include "runtime/src/base/ThreadPool.h"
#include "runtime/src/device/CudaApi.h"
#include "runtime/src/device/Device.h"

#include <map>

namespace k3rt {

/// The first GPU context of this process (the primary one) and one stream, in which everything happens.
class CudaDevice : public Device {
public:
  /// `threads` copies to memory that transfers are fast with.
  explicit CudaDevice(ThreadPool &threads) : threads(threads) {}
  ~CudaDevice() override;

  /// Error: K3RT_UNSUPPORTED without driver or GPU, K3RT_INVALID_ARGUMENT when there is none with this number.
  Status open(uint32_t number);

  const char *name() const override { return deviceName.c_str(); }
  bool isHost() const override { return false; }
  Status allocate(uint64_t bytes, const char *purpose, void *&out) override;
  void release(void *memory, uint64_t bytes) override;
  Status allocateHost(uint64_t bytes, const char *purpose, void *&out) override;
  void releaseHost(void *memory, uint64_t bytes) override;
  void upload(void *to, const void *from, uint64_t bytes) override;
  void uploadMade(void *to, uint64_t bytes, const Maker &make) override;
  void download(void *to, const void *from, uint64_t bytes) override;
  void copy(void *to, const void *from, uint64_t bytes) override;
  void fill(void *to, uint8_t byte, uint64_t bytes) override;
  Status finish() override;
  Memory memory() override;

  // For what launches kernels.

  const CudaApi &api() const { return cuda; }
  CudaStream stream() const { return work; }
  /// What the next finish() waits for, for its message.
  void setActivity(const char *what) { activity = what; }

  bool lost() const { return !failure.ok(); }
  /// Declares the device lost because `what` ended with `result`, and returns that failure; a success is none.
  Status check(CudaResult result, const char *what);
  /// The failure; the device is lost already.
  const Status &reason() const { return failure; }

  /// Makes the context current for the calling thread while it lives.
  class Scope {
  public:
    explicit Scope(const CudaDevice &device) : cuda(device.cuda) { cuda.ctxPushCurrent(device.context); }
    ~Scope() {
      CudaContext previous;
      cuda.ctxPopCurrent(&previous);
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    const CudaApi &cuda;
  };

private:
  /// A piece of memory that the GPU can reach, filled from the front with transfers, and used again when they have
  /// happened.
  struct Staging {
    struct Download {
      void *to;
      uint64_t offset, bytes;
    };
    char *memory = nullptr;
    uint64_t used = 0;
    bool busy = false; ///< `done` has been recorded
    CudaEvent done = nullptr;
    std::vector<Download> downloads; ///< to copy out
  };

  Status describe();
  Status startStaging();
  /// The piece in use, with room for at least 64 bytes; null when the device is lost.
  Staging *staging();
  void drain(Staging &piece);
  void copyParallel(char *to, const char *from, uint64_t bytes);
  bool isPinned(const void *memory, uint64_t bytes) const;

  ThreadPool &threads;
  CudaApi cuda;
  std::string deviceName;
  CudaDeviceId id = 0;
  CudaContext context = nullptr;
  CudaStream work = nullptr;
  Status failure;
  const char *activity = nullptr;

  uint64_t allocatedBytes = 0, freeAtOpen = 0;
  std::map<const char *, uint64_t> pinned; ///< host memory by address, with its size

  static constexpr uint64_t stagingBytes = 8u << 20;
  static constexpr size_t numStaging = 4;
  Staging pieces[numStaging];
  size_t current = 0;
};

} // namespace k3rt

#endif // K3RT_DEVICE_CUDADEVICE_H
