//===- CudaBlas.cpp - large products by NVIDIA's library -----------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Matrices of the library are column-major: a row-major [rows, k] is its k x rows.
// So it computes out^T = weight * x^T, with the weight, k x n to it, transposed.
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaBlas.h"

#include <dlfcn.h>

namespace k3rt {

// Numbers of the library's binary interface.
static constexpr int success = 0, computeF32 = 68, typeF32 = 0, typeBf16 = 14;
static constexpr int attributeTransposeA = 3;
static constexpr int32_t transposed = 1;
static constexpr uint32_t reductionsInF32 = 2;
static constexpr int preferWorkspaceBytes = 1, preferReductions = 3, preferAlignmentA = 5;

/// What the library is recommended to have on Hopper.
static constexpr uint64_t workspaceBytes = uint64_t(32) << 20;
/// Of x and out: buffers are at multiples of 64, and rows of matrices in them at multiples of 16.
static constexpr uint32_t alignment = 16;
/// Sizes that are remembered; all are forgotten when there are more.
static constexpr size_t mostSizes = 4096;

CudaBlas::~CudaBlas() {
  CudaDevice::Scope scope(device);
  for (auto &[sizes, product] : prepared)
    destroy(product);
  if (preference)
    destroyPreference(preference);
  if (description)
    destroyDescription(description);
  if (handle)
    destroyHandle(handle);
}

Status CudaBlas::fail(const char *what, int status) const {
  return makeError(K3RT_UNSUPPORTED, "%s: %s ended with %d", libraryName.c_str(), what, status);
}

Status CudaBlas::open() {
  void *library = nullptr;
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"})
    if (!library)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status(K3RT_UNSUPPORTED, "neither libcublasLt.so.13 nor libcublasLt.so.12 can be opened");
#define K3_CUBLASLT_FIND(member, result, name, parameters)                                                             \
  member = reinterpret_cast<decltype(member)>(dlsym(library, name));                                                   \
  if (!member)                                                                                                         \
    return Status(K3RT_UNSUPPORTED, "libcublasLt has no " name);
  K3_CUBLASLT_SYMBOLS(K3_CUBLASLT_FIND)
#undef K3_CUBLASLT_FIND
  size_t version = getVersion();
  libraryName = formatText("cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
  if (int status = create(&handle); status != success) {
    handle = nullptr;
    return fail("cublasLtCreate", status);
  }
  K3RT_RETURN_IF_ERROR(describe());
  return workspace.allocate(device, workspaceBytes, "products of cuBLASLt");
}

/// What all products have in common.
Status CudaBlas::describe() {
  if (int status = createDescription(&description, computeF32, typeF32); status != success) {
    description = nullptr;
    return fail("cublasLtMatmulDescCreate", status);
  }
  if (int status = setDescription(description, attributeTransposeA, &transposed, sizeof(transposed)); status != success)
    return fail("cublasLtMatmulDescSetAttribute", status);
  if (int status = createPreference(&preference); status != success) {
    preference = nullptr;
    return fail("cublasLtMatmulPreferenceCreate", status);
  }
  int status = setPreference(preference, preferWorkspaceBytes, &workspaceBytes, sizeof(workspaceBytes));
  // Sums that are split over blocks are added up in one order, in f32.
  if (status == success)
    status = setPreference(preference, preferReductions, &reductionsInF32, sizeof(reductionsInF32));
  for (int matrix = 0; matrix < 4 && status == success; ++matrix)
    status = setPreference(preference, preferAlignmentA + matrix, &alignment, sizeof(alignment));
  return status == success ? Status() : fail("cublasLtMatmulPreferenceSetAttribute", status);
}

void CudaBlas::destroy(Prepared &product) {
  for (Layout layout : {product.weight, product.x, product.out})
    if (layout)
      destroyLayout(layout);
}

CudaBlas::Prepared CudaBlas::prepare(const Product &product) {
  Prepared out;
  auto layout = [&](Layout &made, int type, int64_t rows, int64_t columns) {
    bool isMade = createLayout(&made, type, uint64_t(rows), uint64_t(columns), rows) == success;
    if (!isMade)
      made = nullptr;
    return isMade;
  };
  int found = 0;
  Heuristic best = {};
  if (layout(out.weight, typeBf16, product.k, product.n) && layout(out.x, typeBf16, product.k, product.rows) &&
      layout(out.out, product.outIsBf16 ? typeBf16 : typeF32, product.n, product.rows) &&
      choose(handle, description, out.weight, out.x, out.out, out.out, preference, 1, &best, &found) == success &&
      found == 1 && best.status == success && best.workspaceBytes <= workspace.size())
    out.chosen = best;
  return out;
}

bool CudaBlas::multiply(const Product &product) {
  auto isAligned = [](const void *memory) { return reinterpret_cast<uintptr_t>(memory) % alignment == 0; };
  if (!isAligned(product.x) || !isAligned(product.weight) || !isAligned(product.out))
    return false;
  Sizes sizes = {product.rows, product.n, product.k, product.outIsBf16, product.accumulate};
  auto known = prepared.find(sizes);
  if (known == prepared.end()) {
    if (prepared.size() >= mostSizes) {
      for (auto &[size, other] : prepared)
        destroy(other);
      prepared.clear();
    }
    known = prepared.emplace(sizes, prepare(product)).first;
  }
  Prepared &ready = known->second;
  if (!ready.chosen)
    return false;
  float alpha = 1, beta = product.accumulate ? 1 : 0;
  int status = matmul(handle, description, &alpha, product.weight, ready.weight, product.x, ready.x, &beta, product.out,
                      ready.out, product.out, ready.out, &ready.chosen->algorithm, workspace.data(), workspace.size(),
                      device.stream());
  if (status != success)
    ready.chosen.reset(); // It is not asked again.
  return status == success;
}

} // namespace k3rt
