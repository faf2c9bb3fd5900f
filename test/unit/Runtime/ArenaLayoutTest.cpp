//===- ArenaLayoutTest.cpp - buffers moved together -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/ArenaLayout.h"
#include "runtime/src/artifact/CheckArtifact.h"
#include "runtime/src/base/Memory.h"
#include "test/unit/Runtime/ToyModel.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace k3::artifact;
using k3rt::Symbol;
using k3rt::SymbolValues;

namespace {

struct Placed {
  const char *name;
  uint64_t offset, reserved; ///< as the compiler has it, in bytes
  std::vector<int64_t> perRow; ///< elements of a row; the number of rows is T
  std::vector<int64_t> fixed = {}; ///< or a shape that is always the same
};

/// A program of these f32 buffers.
class Program {
public:
  explicit Program(const std::vector<Placed> &buffers) {
    toy::Model model = toy::make();
    ProgramT &program = *model.index.programs[0];
    auto t = uint8_t(
        std::find(program.symbols.begin(), program.symbols.end(), "T") -
        program.symbols.begin());
    program.buffers.clear();
    program.arena_bytes = 0;
    for (const Placed &each : buffers) {
      auto buffer = std::make_unique<BufferT>();
      buffer->name = each.name;
      buffer->role = BufferRole::Transient;
      buffer->dtype = DType::F32;
      for (bool isRow : {true, false})
        for (int64_t factor : isRow ? each.perRow : each.fixed) {
          auto term = std::make_unique<TermT>();
          if (isRow)
            term->symbols = {t};
          term->mul = factor;
          buffer->shape.push_back(std::move(term));
        }
      buffer->arena_offset = each.offset;
      buffer->arena_bytes = each.reserved;
      program.arena_bytes =
          std::max(program.arena_bytes, each.offset + each.reserved);
      program.buffers.push_back(std::move(buffer));
    }
    builder.Finish(k3::artifact::Program::Pack(builder, &program));
  }
  const k3::artifact::Program &get() const {
    return *flatbuffers::GetRoot<k3::artifact::Program>(
        builder.GetBufferPointer());
  }

private:
  flatbuffers::FlatBufferBuilder builder;
};

// `b` and `c` take the place of `a` when it is no longer needed; `d` is beside all
// of them.
const std::vector<Placed> shared = {{"a", 0, 2048, {8}},
                                    {"b", 0, 512, {2}},
                                    {"c", 512, 1536, {6}},
                                    {"d", 2048, 1024, {1}, {4}},
                                    {"e", 3072, 64, {}, {16}}};

SymbolValues rows(int64_t count) {
  SymbolValues values = {};
  values[Symbol::rows] = count;
  return values;
}

TEST(ArenaLayout, AsTheCompilerHasItForTheLargestStep) {
  Program program(shared);
  k3rt::ArenaLayout layout = k3rt::layOutArena(program.get(), rows(64));
  EXPECT_EQ(layout.offsets, (std::vector<uint64_t>{0, 0, 512, 2048, 3072}));
  EXPECT_EQ(layout.bytes, program.get().arena_bytes());
}

TEST(ArenaLayout, SmallerStepsTakeLess) {
  Program program(shared);
  k3rt::ArenaLayout layout = k3rt::layOutArena(program.get(), rows(16));
  // a: 512, b: 128, c: 384, d: 256, e: 64 whatever the step.
  EXPECT_EQ(layout.offsets, (std::vector<uint64_t>{0, 0, 128, 512, 768}));
  EXPECT_EQ(layout.bytes, 832u);
  // Sizes are rounded up to 64 bytes, so that buffers begin there.
  layout = k3rt::layOutArena(program.get(), rows(1));
  EXPECT_EQ(layout.offsets, (std::vector<uint64_t>{0, 0, 64, 128, 192}));
  EXPECT_EQ(layout.bytes, 256u);
}

// Of the toy model, for steps of every size.
TEST(ArenaLayout, WhatLayApartStaysApart) {
  toy::Model model = toy::make();
  flatbuffers::FlatBufferBuilder builder;
  FinishArtifactBuffer(builder, Artifact::Pack(builder, &model.index));
  for (const auto *program :
       *GetArtifact(builder.GetBufferPointer())->programs()) {
    auto most = int64_t(program->max_tokens());
    uint64_t before = 0;
    for (int64_t count = 1; count <= most; ++count) {
      SymbolValues largest = k3rt::largestStep(*program, 1, 1, 1);
      largest[Symbol::rows] = count;
      largest[Symbol::sequences] =
          std::min(largest[Symbol::sequences], count);
      largest[Symbol::chunks] = k3rt::maxChunks(
          count, largest[Symbol::sequences], program->chunk_rows());
      largest[Symbol::logitRows] = std::min(largest[Symbol::logitRows], count);
      k3rt::ArenaLayout layout = k3rt::layOutArena(*program, largest);
      EXPECT_LE(layout.bytes, program->arena_bytes());
      EXPECT_GE(layout.bytes, before);
      before = layout.bytes;
      for (uint32_t a = 0; a < program->buffers()->size(); ++a)
        for (uint32_t b = 0; b < program->buffers()->size(); ++b) {
          const Buffer &x = *program->buffers()->Get(a);
          const Buffer &y = *program->buffers()->Get(b);
          if (x.role() != BufferRole::Transient ||
              y.role() != BufferRole::Transient || x.arena_bytes() == 0 ||
              x.arena_offset() + x.arena_bytes() > y.arena_offset())
            continue;
          uint64_t bytes = 4;
          for (const auto *size : *x.shape()) {
            std::array<Symbol, k3rt::numSymbols> symbols;
            size_t numSymbols;
            k3rt::Term term;
            ASSERT_TRUE(
                k3rt::decodeSymbols(*program, symbols, numSymbols).ok());
            ASSERT_TRUE(
                k3rt::decodeTerm(size, symbols.data(), numSymbols, term).ok());
            bytes *= uint64_t(*term.evaluate(largest));
          }
          EXPECT_LE(layout.offsets[a] + bytes, layout.offsets[b])
              << x.name()->str() << " and " << y.name()->str() << ", " << count;
          EXPECT_EQ(layout.offsets[b] % k3rt::bufferAlignment, 0u);
        }
    }
  }
}

} // namespace
