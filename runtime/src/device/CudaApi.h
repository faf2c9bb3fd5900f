//===- CudaApi.h - the CUDA driver, found at run time --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Only the driver API, opened with dlopen: the same program runs on machines
// without a GPU, and no CUDA header is needed to build it. The types are those
// of the driver's binary interface.
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_CUDAAPI_H
#define K3RT_DEVICE_CUDAAPI_H

#include "runtime/src/base/Status.h"

#include <cstddef>
#include <cstdint>

namespace k3rt {

using CudaDeviceId = int;
using CudaAddress = uint64_t;
using CudaContext = struct CudaContextObject *;
using CudaStream = struct CudaStreamObject *;
using CudaEvent = struct CudaEventObject *;
using CudaGraph = struct CudaGraphObject *;
using CudaGraphExec = struct CudaGraphExecObject *;
using CudaModule = struct CudaModuleObject *;
using CudaFunction = struct CudaFunctionObject *;

enum class CudaResult : int {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  stubLibrary = 34,
  noDevice = 100,
  invalidImage = 200,
  noBinaryForGpu = 209,
  unsupportedPtxVersion = 222,
  notFound = 500
};
enum class CudaDeviceAttribute : int {
  clockKiloHertz = 13,
  multiprocessorCount = 16,
  memoryClockKiloHertz = 36,
  memoryBusBits = 37,
  capabilityMajor = 75,
  capabilityMinor = 76
};
enum class CudaFunctionAttribute : int {
  maxThreadsPerBlock = 0,
  maxDynamicSharedBytes = 8,
  nonPortableClusterSizeAllowed = 14
};
enum class CudaCaptureMode : int { global = 0, threadLocal = 1, relaxed = 2 };
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDisableTiming = 2;
/// In a capture: the graph records the event for those outside of it.
constexpr unsigned cudaEventRecordExternal = 1;

enum class CudaTensorMapType : int { u8 = 0, i32 = 3, f32 = 7, bf16 = 9 };
enum class CudaTensorMapInterleave : int { none = 0 };
enum class CudaTensorMapSwizzle : int { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };
enum class CudaTensorMapPromotion : int { none = 0, bytes256 = 3 };
enum class CudaTensorMapFill : int { zeros = 0 };
struct alignas(128) CudaTensorMap {
  uint64_t opaque[16];
};

struct CudaLaunchAttribute {
  enum class Id : int { cooperative = 2, clusterDimension = 4, programmaticStreamSerialization = 6 };
  Id id;
  char padding[4];
  union {
    struct {
      unsigned x, y, z;
    } cluster;
    int cooperative;
    int programmaticStreamSerialization;
    char bytes[64];
  };
};
struct CudaLaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned dynamicSharedBytes;
  CudaStream stream;
  CudaLaunchAttribute *attributes;
  unsigned attributeCount;
};
static_assert(sizeof(CudaLaunchAttribute) == 72 && offsetof(CudaLaunchAttribute, cluster) == 8 &&
                  sizeof(CudaLaunchConfig) == 56 && offsetof(CudaLaunchConfig, stream) == 32,
              "the driver's binary interface");

/// The functions of the driver.
struct CudaApi {
#define K3_CUDA_SYMBOL(member, symbol, parameters) CudaResult(*member) parameters = nullptr;
#include "runtime/src/device/CudaSymbols.inc"
#undef K3_CUDA_SYMBOL

  /// Opens libcuda, which stays open, checks its version and initialises it. Error: K3RT_UNSUPPORTED when there is
  /// none, it is too old or there is no GPU.
  Status open();

  /// "CUDA 13.0": what the driver supports.
  std::string version() const { return versionText(driverVersion); }
  /// "CUDA_ERROR_X (what that means)".
  std::string describe(CudaResult result) const;

private:
  static std::string versionText(int version);

  int driverVersion = 0;
};

} // namespace k3rt

#endif // K3RT_DEVICE_CUDAAPI_H
