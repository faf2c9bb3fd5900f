//===- Hash.cpp - the artifact's hash ------------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/base/Hash.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace k3rt {

uint64_t hashBytes(const void *data, size_t size) {
  return XXH3_64bits(data, size);
}

uint64_t hashBytes(const void *data, size_t size,
                   const std::function<void(size_t)> &advance) {
  constexpr size_t pieceBytes = size_t(32) << 20;
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (size_t done = 0; done < size; done += pieceBytes) {
    size_t piece = std::min(pieceBytes, size - done);
    XXH3_64bits_update(&state, static_cast<const char *>(data) + done, piece);
    advance(piece);
  }
  return XXH3_64bits_digest(&state);
}

} // namespace k3rt
