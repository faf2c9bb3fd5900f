//===- Hash.h - the artifact's hash --------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_BASE_HASH_H
#define K3RT_BASE_HASH_H

#include <cstddef>
#include <cstdint>
#include <functional>

namespace k3rt {

/// XXH3-64 without a seed. Guards against damage, not against forgery.
uint64_t hashBytes(const void *data, size_t size);

/// The same, calling `advance` with the bytes done since the last call.
uint64_t hashBytes(const void *data, size_t size,
                   const std::function<void(size_t)> &advance);

} // namespace k3rt

#endif // K3RT_BASE_HASH_H
