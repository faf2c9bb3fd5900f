//===- FakeCuda.h - a CUDA driver without a GPU --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A libcuda.so.1 with what the runtime uses of the driver API. Its memory is the
// host's, but nobody can touch it outside of a call; what goes into a stream
// happens as late as the API allows; kernels are the toy model's, looked up by
// the names in a "cubin" (see cubinText). Kernels of a real cubin do nothing, but
// their launches are looked at all the same. Misuse is an error code, as with a
// real driver, and is written down.
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_RUNTIME_FAKECUDA_H
#define K3_TEST_RUNTIME_FAKECUDA_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fakecuda {

// Results of the driver API that tests use.
constexpr int success = 0, invalidValue = 1, outOfMemory = 2, noDevice = 100, noBinaryForGpu = 209,
              illegalAddress = 700, launchFailed = 719, cooperativeLaunchTooLarge = 720, systemDriverMismatch = 803;

struct Settings {
  int driverVersion = 13000;
  int initResult = success;
  int devices = 1;
  int major = 9, minor = 0;
  uint32_t multiprocessors = 132;
  uint64_t totalBytes = uint64_t(256) << 20; ///< of the heap, at most 1 GiB
  uint64_t usedByOthers = 0;
  uint8_t freshByte = 0xff; ///< what new memory holds: NaN
  /// The call number `failingCall` from now on (counted from 1) ends with `failure`; 0 = none. After `lastsForever` all
  /// later ones do, too.
  uint64_t failingCall = 0;
  int failure = invalidValue;
  bool lastsForever = false;
  /// Runs of the kernel with this name end with `kernelFailure`, and launches with `launchFailure`.
  std::string failingKernel;
  int kernelFailure = success, launchFailure = success;
  // Of the library of products.
  int libraryCreates = success, libraryMultiplies = success;
  int algorithms = 1; ///< that it finds
};

/// What is left to be given back.
struct Live {
  uint64_t contexts = 0, allocations = 0, bytes = 0, hostAllocations = 0, streams = 0, events = 0, graphs = 0,
           executableGraphs = 0, modules = 0, libraryObjects = 0;
  uint64_t objects() const {
    return contexts + allocations + hostAllocations + streams + events + graphs + executableGraphs + modules +
           libraryObjects;
  }
};

struct TensorMap {
  int type = 0;
  std::vector<uint64_t> sizes, strides; ///< innermost first; one stride less than sizes
  std::vector<uint32_t> box, elementStrides;
  uint64_t address = 0;
  int interleave = 0, swizzle = 0, promotion = 0, fill = 0;
};

struct Launch {
  std::string kernel;
  uint32_t grid[3] = {}, threads = 0, sharedBytes = 0, cluster = 1;
  bool captured = false, early = false, cooperative = false;
  std::vector<TensorMap> maps;
};

/// A call of the library of products, in its words: out is m x n.
struct Matmul {
  uint64_t m = 0, n = 0, k = 0;
  bool outIsBf16 = false;
  float beta = 0;
};

/// Everything that changes between tests.
struct Driver {
  Settings settings;
  Live live;
  std::map<std::string, uint64_t> calls; ///< by symbol
  uint64_t numCalls = 0;
  uint64_t downloadedBytes = 0;
  std::vector<Launch> launches;      ///< in the order of the calls
  std::vector<Matmul> matmuls;       ///< the same
  std::vector<std::string> problems; ///< misuse
};

/// The fake in this process. It has to be loaded: see load().
Driver &driver();
/// Default settings, nothing counted. What is live stays.
void reset();

/// Loads the library for this process, so that it is what dlopen("libcuda.so.1") finds. Done once.
void load();
/// The same for libcublasLt.so.13.
void loadBlas();

/// The content of a cubin for the fake: chip, then per kernel its name, position in the toy model's kernel table,
/// numbers of bindings, scalars and tensor maps, and the binding that is a table of addresses with its length (0:
/// none).
struct KernelText {
  std::string name;
  uint32_t ordinal, bindings, scalars, maps, tableBinding, tableLength;
  uint32_t maxThreads = 1024;
  bool resident = false; ///< its blocks wait for each other
};
std::string cubinText(const std::string &chip, const std::vector<KernelText> &kernels);

} // namespace fakecuda

#endif // K3_TEST_RUNTIME_FAKECUDA_H
