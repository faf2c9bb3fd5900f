//===- FakeCublas.cpp - a cuBLASLt without a GPU -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// A libcublasLt.so.13 on the fake driver with what the runtime uses of it, written
// from its documentation: matrices are column-major, out = alpha op(a) op(b) +
// beta c. It computes element by element. Misuse is an error code and written
// down.
//===----------------------------------------------------------------------===//
#include "test/unit/Runtime/FakeCuda/FakeCuda.h"

#include <cstring>
#include <functional>
#include <set>

using namespace fakecuda;

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Stream;
extern "C" Driver *fakeCudaDriver();
extern "C" bool fakeCudaInDevice(const void *memory, uint64_t bytes);
extern "C" int fakeCudaSubmit(const char *symbol, Stream *stream, std::function<int()> work);

namespace {

constexpr int notInitialized = 1, invalid = 7, notSupported = 15;
constexpr int typeF32 = 0, typeBf16 = 14;

struct Object {
  enum class Kind { handle, description, layout, preference } kind;
  bool transposes[2] = {}; ///< of a description
  // Of a layout.
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t stride = 0;
  // Of a preference.
  uint64_t workspaceBytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};
std::set<Object *> objects;

int problem(const std::string &text) {
  fakeCudaDriver()->problems.push_back("cublasLt: " + text);
  return invalid;
}

bool is(Object *object, Object::Kind kind) { return objects.count(object) && object->kind == kind; }

int make(Object **out, const Object &object) {
  *out = new Object(object);
  objects.insert(*out);
  ++fakeCudaDriver()->live.libraryObjects;
  return success;
}

int drop(Object *object, Object::Kind kind) {
  if (!is(object, kind))
    return problem("an object that is none is destroyed");
  objects.erase(object);
  delete object;
  --fakeCudaDriver()->live.libraryObjects;
  return success;
}

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
constexpr uint64_t magic = 0x6d6c61, wantedWorkspace = 1 << 20;

float valueAt(const void *matrix, int type, int64_t at) {
  if (type == typeF32)
    return static_cast<const float *>(matrix)[at];
  uint32_t bits = uint32_t(static_cast<const uint16_t *>(matrix)[at]) << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

void setAt(void *matrix, int type, int64_t at, float value) {
  if (type == typeF32) {
    static_cast<float *>(matrix)[at] = value;
    return;
  }
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  static_cast<uint16_t *>(matrix)[at] = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint64_t bytesOf(const Object &layout) {
  return uint64_t(layout.stride) * layout.columns * (layout.type == typeF32 ? 4 : 2);
}

/// m x n x k of op(a) op(b), if all fit together.
bool sizesOf(const Object &description, const Object &a, const Object &b, const Object &c, Matmul &out) {
  out.m = description.transposes[0] ? a.columns : a.rows;
  out.k = description.transposes[0] ? a.rows : a.columns;
  out.n = description.transposes[1] ? b.rows : b.columns;
  out.outIsBf16 = c.type == typeBf16;
  return (description.transposes[1] ? b.columns : b.rows) == out.k && c.rows == out.m && c.columns == out.n;
}

} // namespace

EXPORT size_t cublasLtGetVersion() { return 130100; }

EXPORT int cublasLtCreate(Object **out) {
  if (fakeCudaDriver()->settings.libraryCreates != success)
    return fakeCudaDriver()->settings.libraryCreates;
  return make(out, {Object::Kind::handle});
}
EXPORT int cublasLtDestroy(Object *handle) { return drop(handle, Object::Kind::handle); }

EXPORT int cublasLtMatmulDescCreate(Object **out, int computeType, int scaleType) {
  if (computeType != 68 || scaleType != typeF32)
    return problem("sums that are not f32");
  return make(out, {Object::Kind::description});
}
EXPORT int cublasLtMatmulDescDestroy(Object *object) { return drop(object, Object::Kind::description); }

EXPORT int cublasLtMatmulDescSetAttribute(Object *object, int attribute, const void *value, size_t bytes) {
  int32_t operation = 0;
  if (!is(object, Object::Kind::description) || (attribute != 3 && attribute != 4) || bytes != sizeof(operation))
    return problem("unknown attribute of a description");
  memcpy(&operation, value, bytes);
  if (operation != 0 && operation != 1)
    return problem("unknown operation");
  object->transposes[attribute - 3] = operation == 1;
  return success;
}

EXPORT int cublasLtMatrixLayoutCreate(Object **out, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  if ((type != typeF32 && type != typeBf16) || rows == 0 || columns == 0 || stride < int64_t(rows))
    return problem("a layout of nothing");
  Object layout = {Object::Kind::layout};
  layout.type = type;
  layout.rows = rows;
  layout.columns = columns;
  layout.stride = stride;
  return make(out, layout);
}
EXPORT int cublasLtMatrixLayoutDestroy(Object *object) { return drop(object, Object::Kind::layout); }

EXPORT int cublasLtMatmulPreferenceCreate(Object **out) { return make(out, {Object::Kind::preference}); }
EXPORT int cublasLtMatmulPreferenceDestroy(Object *object) { return drop(object, Object::Kind::preference); }

EXPORT int cublasLtMatmulPreferenceSetAttribute(Object *object, int attribute, const void *value, size_t bytes) {
  if (!is(object, Object::Kind::preference))
    return problem("no such preference");
  if (attribute == 1 && bytes == 8)
    memcpy(&object->workspaceBytes, value, bytes);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4)
    memcpy(&object->alignments[attribute - 5], value, bytes);
  else if (attribute != 3 || bytes != 4)
    return problem("unknown attribute of a preference");
  return success;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(Object *handle, Object *description, Object *a, Object *b, Object *c, Object *d,
                                          Object *preference, int wanted, Heuristic *out, int *found) {
  using Kind = Object::Kind;
  *found = 0;
  Matmul sizes;
  if (!is(handle, Kind::handle) || !is(description, Kind::description) || !is(a, Kind::layout) || !is(b, Kind::layout) ||
      !is(c, Kind::layout) || !is(d, Kind::layout) || !is(preference, Kind::preference) || wanted < 1)
    return problem("cublasLtMatmulAlgoGetHeuristic of no objects");
  if (!sizesOf(*description, *a, *b, *d, sizes))
    return problem("matrices that cannot be multiplied");
  if (fakeCudaDriver()->settings.algorithms == 0 || preference->workspaceBytes < wantedWorkspace)
    return notSupported;
  *out = {};
  out->algorithm.opaque[0] = magic;
  for (int i = 0; i < 4; ++i)
    out->algorithm.opaque[1 + i] = preference->alignments[i];
  out->workspaceBytes = wantedWorkspace;
  *found = 1;
  return success;
}

EXPORT int cublasLtMatmul(Object *handle, Object *description, const void *alpha, const void *a, Object *aLayout,
                          const void *b, Object *bLayout, const void *beta, const void *c, Object *cLayout, void *d,
                          Object *dLayout, const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                          Stream *stream) {
  if (fakeCudaDriver()->settings.libraryMultiplies != success)
    return fakeCudaDriver()->settings.libraryMultiplies;
  using Kind = Object::Kind;
  if (!is(handle, Kind::handle) || !is(description, Kind::description) || !is(aLayout, Kind::layout) ||
      !is(bLayout, Kind::layout) || !is(cLayout, Kind::layout) || !is(dLayout, Kind::layout))
    return problem("cublasLtMatmul of no objects");
  Matmul sizes;
  if (!sizesOf(*description, *aLayout, *bLayout, *dLayout, sizes) || cLayout != dLayout || c != d)
    return problem("matrices that cannot be multiplied");
  if (algorithm->opaque[0] != magic || workspaceBytes < wantedWorkspace || !fakeCudaInDevice(workspace, workspaceBytes))
    return problem("no algorithm, or no memory for it");
  const void *memories[] = {a, b, c, d};
  const Object *layouts[] = {aLayout, bLayout, cLayout, dLayout};
  for (int i = 0; i < 4; ++i)
    if (!fakeCudaInDevice(memories[i], bytesOf(*layouts[i])) ||
        reinterpret_cast<uintptr_t>(memories[i]) % algorithm->opaque[1 + i] != 0)
      return problem("a matrix that is not in device memory, or not aligned");
  float scale;
  memcpy(&scale, alpha, sizeof(scale));
  memcpy(&sizes.beta, beta, sizeof(sizes.beta));
  fakeCudaDriver()->matmuls.push_back(sizes);
  Object op = *description, aIs = *aLayout, bIs = *bLayout, out = *dLayout;
  auto work = [=] {
    for (uint64_t column = 0; column < sizes.n; ++column)
      for (uint64_t row = 0; row < sizes.m; ++row) {
        float sum = 0;
        for (uint64_t k = 0; k < sizes.k; ++k) {
          uint64_t inA = op.transposes[0] ? row * uint64_t(aIs.stride) + k : k * uint64_t(aIs.stride) + row;
          uint64_t inB = op.transposes[1] ? k * uint64_t(bIs.stride) + column : column * uint64_t(bIs.stride) + k;
          sum += valueAt(a, aIs.type, int64_t(inA)) * valueAt(b, bIs.type, int64_t(inB));
        }
        auto at = int64_t(column * uint64_t(out.stride) + row);
        float old = sizes.beta != 0 ? sizes.beta * valueAt(d, out.type, at) : 0;
        setAt(d, out.type, at, scale * sum + old);
      }
    return success;
  };
  return fakeCudaSubmit("cublasLtMatmul", stream, work) == success ? success : notInitialized;
}
