//===- CudaDevice.cpp - an NVIDIA GPU as a device ------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaDevice.h"

#include <algorithm>
#include <cstring>

namespace k3rt {

using Word = unsigned long long;

static CudaAddress addressOf(const void *memory) { return CudaAddress(reinterpret_cast<uintptr_t>(memory)); }

//===----------------------------------------------------------------------===//
// Opening and closing
//===----------------------------------------------------------------------===//

Status CudaDevice::open(uint32_t number) {
  deviceName = "cuda:" + std::to_string(number);
  auto here = [&](const Status &status) {
    return Status(status.code(), "device " + deviceName + ": " + status.message());
  };
  auto call = [&](CudaResult result, const char *what) {
    if (result == CudaResult::success)
      return Status();
    return here(makeError(K3RT_UNSUPPORTED, "%s: %s", what, cuda.describe(result).c_str()));
  };
  if (Status status = cuda.open(); !status.ok())
    return here(status);
  int count = 0;
  K3RT_RETURN_IF_ERROR(call(cuda.deviceGetCount(&count), "cannot count GPUs"));
  if (count <= 0)
    return here(Status(K3RT_UNSUPPORTED, "no NVIDIA GPU"));
  if (number >= uint32_t(count))
    return makeError(K3RT_INVALID_ARGUMENT, "device is %s, but there %s", deviceName.c_str(),
                     count == 1 ? "is only cuda:0" : formatText("are only cuda:0 to cuda:%d", count - 1).c_str());
  K3RT_RETURN_IF_ERROR(call(cuda.deviceGet(&id, int(number)), "cannot be found"));
  if (Status status = describe(); !status.ok())
    return here(status);
  K3RT_RETURN_IF_ERROR(call(cuda.devicePrimaryCtxRetain(&context, id), "cannot be used"));
  Scope scope(*this);
  freeAtOpen = memory().free;
  return call(cuda.streamCreate(&work, cudaStreamNonBlocking), "cannot be used");
}

Status CudaDevice::describe() {
  char text[128] = "";
  CudaResult result = cuda.deviceGetName(text, sizeof(text), id);
  auto attribute = [&](CudaDeviceAttribute which) {
    int value = 0;
    if (result == CudaResult::success)
      result = cuda.deviceGetAttribute(&value, which, id);
    return unsigned(value);
  };
  facts.model = text;
  facts.capabilityMajor = attribute(CudaDeviceAttribute::capabilityMajor);
  facts.capabilityMinor = attribute(CudaDeviceAttribute::capabilityMinor);
  facts.multiprocessors = attribute(CudaDeviceAttribute::multiprocessorCount);
  constexpr double kilo = 1e3, edgesPerClock = 2, bitsPerByte = 8;
  facts.clockHz = kilo * attribute(CudaDeviceAttribute::clockKiloHertz);
  facts.memoryBytesPerSecond = kilo * attribute(CudaDeviceAttribute::memoryClockKiloHertz) * edgesPerClock *
                               attribute(CudaDeviceAttribute::memoryBusBits) / bitsPerByte;
  if (result != CudaResult::success)
    return makeError(K3RT_UNSUPPORTED, "does not tell what it can: %s", cuda.describe(result).c_str());
  return Status();
}

CudaDevice::~CudaDevice() {
  if (!context)
    return;
  {
    Scope scope(*this);
    if (work)
      cuda.streamSynchronize(work);
    for (Staging &piece : pieces)
      if (piece.done)
        cuda.eventDestroy(piece.done);
    if (pieces[0].memory)
      cuda.memFreeHost(pieces[0].memory);
    if (work)
      cuda.streamDestroy(work);
  }
  cuda.devicePrimaryCtxRelease(id);
}

Status CudaDevice::check(CudaResult result, const char *what) {
  if (result == CudaResult::success)
    return Status();
  if (failure.ok())
    failure = makeError(K3RT_INTERNAL, "%s: %s: %s", deviceName.c_str(), what, cuda.describe(result).c_str());
  return failure;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status CudaDevice::allocate(uint64_t bytes, const char *purpose, void *&out) {
  if (lost())
    return failure;
  Scope scope(*this);
  CudaAddress address = 0;
  CudaResult result = cuda.memAlloc(&address, bytes);
  if (result == CudaResult::outOfMemory) {
    Memory now = memory();
    return makeError(K3RT_OUT_OF_MEMORY, "%s: cannot allocate %llu bytes for %s, %llu of %llu are free",
                     deviceName.c_str(), Word(bytes), purpose, Word(now.free), Word(now.total));
  }
  K3RT_RETURN_IF_ERROR(check(result, "cannot allocate memory"));
  allocatedBytes += bytes;
  out = reinterpret_cast<void *>(uintptr_t(address));
  return Status();
}

void CudaDevice::release(void *memory, uint64_t bytes) {
  Scope scope(*this);
  cuda.memFree(addressOf(memory));
  allocatedBytes -= bytes;
}

Status CudaDevice::allocateHost(uint64_t bytes, const char *purpose, void *&out) {
  if (lost())
    return failure;
  Scope scope(*this);
  void *memory = nullptr;
  CudaResult result = cuda.memHostAlloc(&memory, bytes, 0);
  if (result == CudaResult::outOfMemory)
    return makeError(K3RT_OUT_OF_MEMORY, "cannot allocate %llu bytes of pinned host memory for %s", Word(bytes),
                     purpose);
  K3RT_RETURN_IF_ERROR(check(result, "cannot allocate pinned host memory"));
  pinned[static_cast<char *>(memory)] = bytes;
  out = memory;
  return Status();
}

void CudaDevice::releaseHost(void *memory, uint64_t) {
  Scope scope(*this);
  pinned.erase(static_cast<char *>(memory));
  cuda.memFreeHost(memory);
}

bool CudaDevice::isPinned(const void *memory, uint64_t bytes) const {
  auto *begin = static_cast<const char *>(memory);
  auto after = pinned.upper_bound(begin);
  if (after == pinned.begin())
    return false;
  --after;
  uint64_t offset = uint64_t(begin - after->first);
  return offset <= after->second && bytes <= after->second - offset;
}

Device::Memory CudaDevice::memory() {
  Memory out;
  out.allocated = allocatedBytes;
  out.freeAtOpen = freeAtOpen;
  Scope scope(*this);
  size_t free = 0, total = 0;
  if (cuda.memGetInfo(&free, &total) == CudaResult::success) {
    out.free = free;
    out.total = total;
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

Status CudaDevice::startStaging() {
  void *memory = nullptr;
  K3RT_RETURN_IF_ERROR(
      check(cuda.memHostAlloc(&memory, stagingBytes * numStaging, 0), "cannot allocate pinned host memory"));
  for (size_t i = 0; i < numStaging; ++i) {
    pieces[i].memory = static_cast<char *>(memory) + i * stagingBytes;
    K3RT_RETURN_IF_ERROR(check(cuda.eventCreate(&pieces[i].done, cudaEventDisableTiming), "cannot create an event"));
  }
  return Status();
}

CudaDevice::Staging *CudaDevice::staging() {
  if (!pieces[0].memory && !startStaging().ok())
    return nullptr;
  Staging &full = pieces[current];
  if (stagingBytes - full.used >= bufferAlignment)
    return &full;
  if (!check(cuda.eventRecord(full.done, work), "cannot record an event").ok())
    return nullptr;
  full.busy = true;
  current = (current + 1) % numStaging;
  Staging &next = pieces[current];
  if (next.busy && !check(cuda.eventSynchronize(next.done), "a transfer failed").ok())
    return nullptr;
  drain(next);
  return &next;
}

/// Takes a piece back whose transfers have happened.
void CudaDevice::drain(Staging &piece) {
  for (const Staging::Download &download : piece.downloads)
    copyParallel(static_cast<char *>(download.to), piece.memory + download.offset, download.bytes);
  piece.downloads.clear();
  piece.used = 0;
  piece.busy = false;
}

template <typename Body> static void eachPiece(ThreadPool &threads, uint64_t bytes, Body body) {
  constexpr uint64_t pieceBytes = 512u << 10;
  auto count = uint32_t((bytes + pieceBytes - 1) / pieceBytes); // of one staging piece at most
  threads.parallelFor(count, [&](uint32_t first, uint32_t last, uint32_t) {
    for (uint32_t i = first; i < last; ++i)
      body(i * pieceBytes, std::min(pieceBytes, bytes - i * pieceBytes));
  });
}

void CudaDevice::copyParallel(char *to, const char *from, uint64_t bytes) {
  eachPiece(threads, bytes, [&](uint64_t begin, uint64_t count) { memcpy(to + begin, from + begin, count); });
}

void CudaDevice::upload(void *to, const void *from, uint64_t bytes) {
  if (lost() || bytes == 0)
    return;
  if (isPinned(from, bytes)) {
    Scope scope(*this);
    (void)check(cuda.memcpyHtoDAsync(addressOf(to), from, bytes, work), "cannot upload");
    return;
  }
  auto *source = static_cast<const char *>(from);
  uploadMade(to, bytes, [source](char *out, uint64_t begin, uint64_t count) { memcpy(out, source + begin, count); });
}

void CudaDevice::uploadMade(void *to, uint64_t bytes, const Maker &make) {
  if (lost())
    return;
  Scope scope(*this);
  for (uint64_t done = 0; done < bytes;) {
    Staging *piece = staging();
    if (!piece)
      return;
    char *from = piece->memory + piece->used;
    uint64_t count = std::min(bytes - done, stagingBytes - piece->used);
    eachPiece(threads, count, [&](uint64_t begin, uint64_t part) { make(from + begin, done + begin, part); });
    if (!check(cuda.memcpyHtoDAsync(addressOf(to) + done, from, count, work), "cannot upload").ok())
      return;
    piece->used += alignTo(count, bufferAlignment);
    done += count;
  }
}

void CudaDevice::download(void *to, const void *from, uint64_t bytes) {
  if (lost() || bytes == 0)
    return;
  Scope scope(*this);
  if (isPinned(to, bytes)) {
    (void)check(cuda.memcpyDtoHAsync(to, addressOf(from), bytes, work), "cannot download");
    return;
  }
  for (uint64_t done = 0; done < bytes;) {
    Staging *piece = staging();
    if (!piece)
      return;
    uint64_t count = std::min(bytes - done, stagingBytes - piece->used);
    if (!check(cuda.memcpyDtoHAsync(piece->memory + piece->used, addressOf(from) + done, count, work),
               "cannot download")
             .ok())
      return;
    piece->downloads.push_back({static_cast<char *>(to) + done, piece->used, count});
    piece->used += alignTo(count, bufferAlignment);
    done += count;
  }
}

void CudaDevice::copy(void *to, const void *from, uint64_t bytes) {
  if (lost() || bytes == 0)
    return;
  Scope scope(*this);
  (void)check(cuda.memcpyDtoDAsync(addressOf(to), addressOf(from), bytes, work), "cannot copy");
}

void CudaDevice::fill(void *to, uint8_t byte, uint64_t bytes) {
  if (lost() || bytes == 0)
    return;
  Scope scope(*this);
  (void)check(cuda.memsetD8Async(addressOf(to), byte, bytes, work), "cannot fill");
}

Status CudaDevice::finish() {
  if (lost())
    return failure;
  Scope scope(*this);
  if (CudaResult result = cuda.streamSynchronize(work); result != CudaResult::success) {
    std::string what = "lost";
    if (activity)
      what += formatText(" while running %s (--poison --no-graph names the kernel)", activity);
    return check(result, what.c_str());
  }
  activity = nullptr;
  for (size_t i = 1; i <= numStaging; ++i)
    drain(pieces[(current + i) % numStaging]);
  return Status();
}

} // namespace k3rt
