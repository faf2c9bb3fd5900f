//===- ArenaLayout.cpp - where a program's buffers are --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/ArenaLayout.h"
#include "runtime/src/artifact/DType.h"
#include "runtime/src/base/Memory.h"

#include <algorithm>

namespace k3rt {

namespace schema = k3::artifact;

/// checkArtifact knows that it is at most buffer.arena_bytes() for the largest
/// step of the program.
static uint64_t bytesIn(const schema::Buffer &buffer,
                        const std::array<Symbol, numSymbols> &symbols,
                        size_t numProgramSymbols, const SymbolValues &largest) {
  uint64_t bytes = elementBytes(buffer.dtype());
  if (buffer.shape())
    for (const auto *size : *buffer.shape()) {
      Term term;
      if (!decodeTerm(size, symbols.data(), numProgramSymbols, term).ok())
        return buffer.arena_bytes();
      bytes *= uint64_t(term.evaluate(largest).value_or(0));
    }
  return alignTo(std::min<uint64_t>(bytes, buffer.arena_bytes()),
                 bufferAlignment);
}

ArenaLayout layOutArena(const schema::Program &program,
                        const SymbolValues &largest) {
  ArenaLayout layout;
  if (!program.buffers())
    return layout;
  std::array<Symbol, numSymbols> symbols = {};
  size_t numProgramSymbols = 0;
  (void)decodeSymbols(program, symbols, numProgramSymbols);
  layout.offsets.resize(program.buffers()->size());
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < program.buffers()->size(); ++i)
    if (program.buffers()->Get(i)->role() == schema::BufferRole::Transient)
      order.push_back(i);
  auto given = [&](uint32_t i) -> const schema::Buffer & {
    return *program.buffers()->Get(i);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(given(a).arena_offset(), a) <
           std::make_pair(given(b).arena_offset(), b);
  });
  // Behind everything that ended before it began.
  std::vector<uint64_t> ends(layout.offsets.size());
  for (size_t at = 0; at < order.size(); ++at) {
    uint32_t buffer = order[at];
    uint64_t offset = 0;
    for (size_t before = 0; before < at; ++before) {
      const schema::Buffer &other = given(order[before]);
      if (other.arena_offset() + other.arena_bytes() <=
          given(buffer).arena_offset())
        offset = std::max(offset, ends[order[before]]);
    }
    layout.offsets[buffer] = offset;
    ends[buffer] =
        offset + bytesIn(given(buffer), symbols, numProgramSymbols, largest);
    layout.bytes = std::max(layout.bytes, ends[buffer]);
  }
  return layout;
}

} // namespace k3rt
