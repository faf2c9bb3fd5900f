//===- Handles.h - what the handles of the C API are ---------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_CAPI_HANDLES_H
#define K3RT_CAPI_HANDLES_H

#include "runtime/src/engine/Engine.h"
#include "runtime/src/text/Sampler.h"

#include <algorithm>
#include <cstring>

struct k3rt_engine {
  k3rt::Engine engine;
  std::string error;
  std::vector<int32_t> eosTokens;
  // Of k3rt_step_choose.
  std::vector<k3rt::Sampler> samplers;
  std::vector<k3rt::RowSampling> rowSampling;

  k3rt_status report(const k3rt::Status &status) {
    error = status.message();
    return status.code();
  }
};

namespace k3rt {

//===----------------------------------------------------------------------===//
// Structs that may grow
//===----------------------------------------------------------------------===//

/// `given` over `defaults`, as far as the caller's version of the struct goes.
template <typename Struct>
Struct readSized(const Struct *given, const Struct &defaults) {
  Struct out = defaults;
  if (given)
    memcpy(&out, given, std::min(given->size, sizeof(Struct)));
  return out;
}

/// Fills as much of `out` as the caller's version of the struct has.
template <typename Struct>
Status writeSized(Struct *out, const Struct &value) {
  if (!out || out->size < sizeof(size_t))
    return Status(K3RT_INVALID_ARGUMENT,
                  "the struct to fill is NULL or its size is not set");
  size_t size = out->size;
  memcpy(out, &value, std::min(size, sizeof(Struct)));
  out->size = size;
  return Status();
}

inline k3rt_status reportTo(char *error, size_t size, const Status &status) {
  if (error && size != 0) {
    size_t length = std::min(status.message().size(), size - 1);
    memcpy(error, status.message().data(), length);
    error[length] = '\0';
  }
  return status.code();
}

inline Status nullArgument(const char *name) {
  return makeError(K3RT_INVALID_ARGUMENT, "%s is NULL", name);
}

/// What a caller gave over the defaults.
inline k3rt_sampling readSampling(const k3rt_sampling *given) {
  k3rt_sampling defaults;
  k3rt_sampling_init(&defaults);
  return readSized(given, defaults);
}

inline SamplerOptions samplerOptions(const k3rt_sampling &sampling) {
  SamplerOptions options;
  options.repetitionPenalty = sampling.repetition_penalty;
  options.temperature = sampling.temperature;
  options.topK = int32_t(std::min<uint32_t>(sampling.top_k, INT32_MAX));
  options.topP = sampling.top_p;
  options.minP = sampling.min_p;
  options.seed = sampling.seed;
  return options;
}

} // namespace k3rt

#endif // K3RT_CAPI_HANDLES_H
