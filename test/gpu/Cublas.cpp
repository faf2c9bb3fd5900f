//===- Cublas.cpp - NVIDIA's products, to compare times with ---------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Cublas.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace k3::gpu;

// The part of cuBLAS's interface that is used, as its documentation has it: no header of it is needed.
struct Cublas::Functions {
  int (*create)(void **);
  int (*destroy)(void *);
  int (*setStream)(void *, void *);
  int (*multiply)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
                  const void *, void *, int, int, int, int);
};
namespace {
enum : int {
  notTransposed = 0,
  transposed = 1,
  typeF32 = 0,
  typeBf16 = 14,
  computeF32 = 68,
  anyAlgorithm = -1,
};
} // namespace

static void *openLibrary() {
  std::vector<std::string> names;
  if (const char *given = std::getenv("K3_CUBLAS"))
    names.push_back(given);
  for (const char *folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"})
    for (const char *name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      names.push_back(std::string(folder) + name);
  for (const std::string &name : names)
    if (void *library = dlopen(name.c_str(), RTLD_NOW))
      return library;
  return nullptr;
}

std::unique_ptr<Cublas> Cublas::open(void *stream) {
  void *library = openLibrary();
  if (!library)
    return nullptr;
  std::unique_ptr<Cublas> cublas(new Cublas);
  cublas->functions = std::make_unique<Functions>();
  Functions &f = *cublas->functions;
  bool complete = true;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete &= function != nullptr;
  };
  find(f.create, "cublasCreate_v2");
  find(f.destroy, "cublasDestroy_v2");
  find(f.setStream, "cublasSetStream_v2");
  find(f.multiply, "cublasGemmEx");
  if (!complete || f.create(&cublas->handle) != 0 || f.setStream(cublas->handle, stream) != 0)
    return nullptr;
  return cublas;
}

Cublas::~Cublas() {
  if (handle)
    functions->destroy(handle);
}

bool Cublas::multiply(const Gpu::Product &p) const {
  // Columns come first there: its matrices are ours transposed, out^T = weight x^T.
  const float one = 1, zero = 0;
  auto at = [](Gpu::Address address) { return reinterpret_cast<void *>(address); };
  auto n = static_cast<int>(p.n), rows = static_cast<int>(p.rows), k = static_cast<int>(p.k);
  return functions->multiply(handle, transposed, notTransposed, n, rows, k, &one, at(p.weight), typeBf16, k, at(p.x),
                             typeBf16, k, &zero, at(p.out), p.outDtype == "f32" ? typeF32 : typeBf16, n, computeF32,
                             anyAlgorithm) == 0;
}
