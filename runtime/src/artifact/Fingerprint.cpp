//===- Fingerprint.cpp - which model states belong to --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Fingerprint.h"
#include "runtime/src/artifact/WeightTensors.h"
#include "runtime/src/base/Hash.h"

#include <algorithm>

namespace k3rt {

namespace schema = k3::artifact;

namespace {
/// Pieces of any length, kept apart.
class Pieces {
public:
  void add(const void *data, uint64_t bytes) {
    number(bytes);
    text.append(static_cast<const char *>(data), bytes);
  }
  void add(const flatbuffers::String *string) {
    add(string ? string->data() : "", string ? string->size() : 0);
  }
  void number(uint64_t value) {
    text.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  uint64_t hash() const { return hashBytes(text.data(), text.size()); }

private:
  std::string text;
};
} // namespace

uint64_t modelFingerprint(const schema::Artifact &index,
                          const FirstBytes &firstBytes) {
  constexpr uint64_t sampleBytes = 256;
  Pieces pieces;
  pieces.add(index.model()->config_json());
  for (uint32_t i = 0; index.states() && i < index.states()->size(); ++i) {
    const schema::State &state = *index.states()->Get(i);
    pieces.number(state.layer());
    pieces.add(state.name());
    pieces.number(uint64_t(state.dtype()));
    // The first dimension of a cache is the page.
    uint32_t rank = state.shape() ? state.shape()->size() : 0;
    for (uint32_t d = state.kind() == schema::StateKind::KvCache; d < rank; ++d)
      pieces.number(uint64_t(state.shape()->Get(d)));
  }
  for (uint32_t i = 0; index.weights() && i < index.weights()->size(); ++i) {
    const schema::Weight &weight = *index.weights()->Get(i);
    char bytes[sampleBytes];
    uint64_t count = std::min(tensorBytes(weight), sampleBytes);
    firstBytes(i, bytes, count);
    pieces.add(weight.name());
    pieces.add(bytes, count);
  }
  return pieces.hash();
}

} // namespace k3rt
