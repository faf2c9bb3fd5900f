//===- Inputs.cpp - the buffers of a program that the runtime fills ------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Inputs.h"

namespace k3rt {

namespace {
struct Description {
  const char *name, *shape;
};
} // namespace

static constexpr Description descriptions[numInputs] = {
    {"tokens", "[T]"},       {"cu", "[N + 1]"},        {"slots", "[N]"},
    {"lengths", "[N]"},      {"page_table", "[N, M]"}, {"chunks", "[C, 2]"},
    {"chunk_cu", "[N + 1]"}, {"logit_rows", "[R]"},    {"sampling", "[R, 8]"},
    {"banned", "[sets, vocab_size / 32]"},
};

std::optional<Input> inputNamed(std::string_view name) {
  for (size_t i = 0; i < numInputs; ++i)
    if (name == descriptions[i].name)
      return Input(i);
  return std::nullopt;
}

const char *inputName(Input input) { return descriptions[size_t(input)].name; }

const char *inputShapeText(Input input) {
  return descriptions[size_t(input)].shape;
}

InputShape inputShape(Input input, const SymbolValues &values) {
  int64_t sequences = values[Symbol::sequences];
  switch (input) {
  case Input::tokens:
    return {{values[Symbol::rows], 1}, 1};
  case Input::cu:
  case Input::chunkCu:
    return {{sequences + 1, 1}, 1};
  case Input::slots:
  case Input::lengths:
    return {{sequences, 1}, 1};
  case Input::pageTable:
    return {{sequences, values[Symbol::pagesPerSequence]}, 2};
  case Input::chunks:
    return {{values[Symbol::chunks], 2}, 2};
  case Input::logitRows:
    return {{values[Symbol::logitRows], 1}, 1};
  case Input::sampling:
    return {{values[Symbol::logitRows], samplingWords}, 2};
  case Input::banned:
    break;
  }
  __builtin_unreachable(); // not an input of a step
}

uint32_t numBanSets(const k3::artifact::Program &program) {
  using k3::artifact::BufferRole;
  uint32_t sets = 0;
  bool hasIds = false;
  for (const auto *buffer : *program.buffers()) {
    std::string_view name = buffer->name()->string_view();
    hasIds |= buffer->role() == BufferRole::Output && name == "ids";
    if (buffer->role() == BufferRole::Input && name == inputName(Input::banned))
      sets = uint32_t(buffer->shape()->Get(0)->mul());
  }
  return hasIds ? sets : 0;
}

} // namespace k3rt
