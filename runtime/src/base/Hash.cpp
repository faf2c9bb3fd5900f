//===- Hash.cpp - the artifact's hash ------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace k3rt {

uint64_t hashBytes(const void *data, size_t size) {
  return XXH3_64bits(data, size);
}

} // namespace k3rt
