//===- CudaBlas.h - large products by NVIDIA's library -------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// cuBLASLt, opened with dlopen: where it is not found, the artifact's own kernels
// do the same. The types are those of its binary interface.
//===----------------------------------------------------------------------===//
#ifndef K3RT_DEVICE_CUDABLAS_H
#define K3RT_DEVICE_CUDABLAS_H

#include "runtime/src/device/CudaDevice.h"

#include <map>
#include <optional>
#include <tuple>

namespace k3rt {

/// Products of bf16 matrices with f32 sums, in the device's stream. Which algorithm the library takes depends on the
/// sizes alone, and the same sizes and values give the same bits.
class CudaBlas {
public:
  /// `device` outlives it.
  explicit CudaBlas(CudaDevice &device) : device(device) {}
  ~CudaBlas();
  CudaBlas(const CudaBlas &) = delete;
  CudaBlas &operator=(const CudaBlas &) = delete;

  /// The device's context is current here and in multiply(). Error: K3RT_UNSUPPORTED, K3RT_OUT_OF_MEMORY; then it is of no
  /// use.
  Status open();
  /// "cuBLASLt 13.1.0".
  const std::string &name() const { return libraryName; }

  /// out[rows, n] = x[rows, k] * weight[n, k]^T, plus the old out with `accumulate`; row-major. x and weight are bf16.
  struct Product {
    const void *x = nullptr, *weight = nullptr;
    void *out = nullptr;
    int64_t rows = 0, n = 0, k = 0;
    bool outIsBf16 = false, accumulate = false;
  };
  /// False: the library cannot; nothing has happened.
  bool multiply(const Product &product);

private:
  using Handle = struct HandleObject *;
  using Description = struct DescriptionObject *;
  using Layout = struct LayoutObject *;
  using Preference = struct PreferenceObject *;
  struct Algorithm {
    uint64_t opaque[8];
  };
  struct Heuristic {
    Algorithm algorithm;
    size_t workspaceBytes;
    int status;
    float waves;
    int reserved[4];
  };
  static_assert(sizeof(Heuristic) == 96, "the library's binary interface");

  /// What belongs to the sizes of a product.
  struct Prepared {
    Layout weight = nullptr, x = nullptr, out = nullptr;
    std::optional<Heuristic> chosen; ///< nothing: the library cannot
  };
  using Sizes = std::tuple<int64_t, int64_t, int64_t, bool, bool>;

  Status fail(const char *what, int status) const;
  Status describe();
  Prepared prepare(const Product &product);
  void destroy(Prepared &prepared);

#define K3_CUBLASLT_SYMBOLS(symbol)                                                                                    \
  symbol(getVersion, size_t, "cublasLtGetVersion", ())                                                                 \
  symbol(create, int, "cublasLtCreate", (Handle *))                                                                    \
  symbol(destroyHandle, int, "cublasLtDestroy", (Handle))                                                              \
  symbol(createDescription, int, "cublasLtMatmulDescCreate", (Description *, int computeType, int scaleType))          \
  symbol(destroyDescription, int, "cublasLtMatmulDescDestroy", (Description))                                          \
  symbol(setDescription, int, "cublasLtMatmulDescSetAttribute", (Description, int, const void *, size_t bytes))        \
  symbol(createLayout, int, "cublasLtMatrixLayoutCreate",                                                              \
         (Layout *, int type, uint64_t rows, uint64_t columns, int64_t stride))                                        \
  symbol(destroyLayout, int, "cublasLtMatrixLayoutDestroy", (Layout))                                                  \
  symbol(createPreference, int, "cublasLtMatmulPreferenceCreate", (Preference *))                                      \
  symbol(destroyPreference, int, "cublasLtMatmulPreferenceDestroy", (Preference))                                      \
  symbol(setPreference, int, "cublasLtMatmulPreferenceSetAttribute", (Preference, int, const void *, size_t bytes))    \
  symbol(choose, int, "cublasLtMatmulAlgoGetHeuristic",                                                                \
         (Handle, Description, Layout a, Layout b, Layout c, Layout d, Preference, int wanted, Heuristic *,            \
          int *found))                                                                                                 \
  symbol(matmul, int, "cublasLtMatmul",                                                                                \
         (Handle, Description, const void *alpha, const void *a, Layout, const void *b, Layout, const void *beta,      \
          const void *c, Layout, void *d, Layout, const Algorithm *, void *workspace, size_t bytes, CudaStream))
#define K3_CUBLASLT_MEMBER(member, result, name, parameters) result(*member) parameters = nullptr;
  K3_CUBLASLT_SYMBOLS(K3_CUBLASLT_MEMBER)
#undef K3_CUBLASLT_MEMBER

  CudaDevice &device;
  std::string libraryName;
  Handle handle = nullptr;
  Description description = nullptr;
  Preference preference = nullptr;
  DeviceBuffer workspace;
  std::map<Sizes, Prepared> prepared;
};

} // namespace k3rt

#endif // K3RT_DEVICE_CUDABLAS_H
