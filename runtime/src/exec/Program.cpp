//===- Program.cpp - a program ready to run ------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/exec/Program.h"
#include "runtime/src/artifact/CheckArtifact.h"

#include <algorithm>
#include <cassert>

namespace k3rt {

namespace schema = k3::artifact;

void Program::build(const ProgramParts &programParts,
                    const schema::Program &encoded) {
  parts = programParts;
  source = &encoded;
  Status status = decodeSymbols(encoded, symbols, numProgramSymbols);
  assert(status.ok() && "checkArtifact decoded them before");
  if (encoded.buffers())
    for (uint32_t i = 0; i < encoded.buffers()->size(); ++i) {
      const schema::Buffer &buffer = *encoded.buffers()->Get(i);
      // [slots, rows, width]; checkArtifact made sure of it.
      if (buffer.name()->string_view() != "stream")
        continue;
      stream = i;
      streamRows = addTerm(buffer.shape()->Get(1));
      streamWidth = addTerm(buffer.shape()->Get(2));
    }

  addGroups(encoded.prologue(), Section::prologue, -1);
  const auto *layers = parts.index->layers();
  for (uint32_t i = 0; layers && i < layers->size(); ++i) {
    size_t before = groupCode.size();
    addGroups(encoded.layer_kinds()->Get(layers->Get(i)->kind())->groups(),
              Section::layer, int32_t(i));
    if (groupCode.size() > before)
      groupCode.back().endsLayer = true;
  }
  epilogue = groupCode.size();
  addGroups(encoded.epilogue(), Section::epilogue, -1);
  termValues.resize(terms.size());
}

void Program::addGroups(const Groups *groups, Section section, int32_t layer) {
  if (!groups)
    return;
  uint32_t position = 0;
  for (const auto *group : *groups) {
    GroupCode code;
    code.section = section;
    code.position = position++;
    code.layer = layer;
    code.firstDispatch = uint32_t(dispatchCode.size());
    if (group->dispatches())
      for (const auto *dispatch : *group->dispatches())
        addDispatch(*dispatch, layer);
    code.numDispatches = uint32_t(dispatchCode.size()) - code.firstDispatch;
    groupCode.push_back(code);
  }
}

void Program::addDispatch(const schema::Dispatch &encoded, int32_t layer) {
  DispatchCode code;
  code.ordinal = encoded.kernel();
  code.encoded = &encoded;
  code.kernel = parts.index->kernels()->Get(encoded.kernel());
  code.layer = layer;
  code.gridTerms[0] = addTerm(encoded.grid_x());
  code.gridTerms[1] = addTerm(encoded.grid_y());
  code.gridTerms[2] = addTerm(encoded.grid_z());
  code.firstBinding = uint32_t(bindingValues.size());
  if (encoded.bindings())
    for (const auto *binding : *encoded.bindings())
      bindingValues.push_back(bindingAddress(*binding, layer));
  code.numBindings = uint32_t(bindingValues.size()) - code.firstBinding;
  code.firstScalar = uint32_t(scalarValues.size());
  if (encoded.scalars())
    for (const auto *scalar : *encoded.scalars()) {
      bool isTerm = scalar->kind() == schema::ScalarKind::Term;
      scalarTerms.push_back(isTerm ? addTerm(scalar->term()) : noTerm);
      scalarValues.push_back(isTerm ? 0
                                    : parts.index->layers()
                                          ->Get(uint32_t(layer))
                                          ->scalars()
                                          ->Get(scalar->index()));
    }
  code.numScalars = uint32_t(scalarValues.size()) - code.firstScalar;
  dispatchCode.push_back(code);
}

uint32_t Program::addTerm(const schema::Term *encoded) {
  if (!encoded)
    return noTerm;
  Term term;
  Status status = decodeTerm(encoded, symbols.data(), numProgramSymbols, term);
  assert(status.ok() && "checkArtifact decoded it before");
  auto found = std::find(terms.begin(), terms.end(), term);
  if (found == terms.end())
    found = terms.insert(terms.end(), term);
  return uint32_t(found - terms.begin());
}

static bool isIds(const schema::Buffer &output) {
  return output.name()->string_view() == "ids";
}

void *Program::bufferAddress(uint32_t buffer) const {
  const schema::Buffer &encoded = *source->buffers()->Get(buffer);
  switch (encoded.role()) {
  case schema::BufferRole::Input:
    return inputsAt[size_t(*inputNamed(encoded.name()->string_view()))];
  case schema::BufferRole::Output:
    if (isIds(encoded))
      return outputsAt.ids;
    return outputsAt.logits;
  case schema::BufferRole::Transient:
    return parts.arena + parts.arenaOffsets[buffer];
  }
  __builtin_unreachable(); // checkArtifact knows all roles
}

void *Program::bindingAddress(const schema::Binding &binding, int32_t layer) {
  auto weight = [&](uint32_t ordinal) {
    // Kernels take all bindings alike; checkArtifact made sure that none that
    // is a weight is declared as written.
    return const_cast<void *>((*parts.weights)[ordinal]);
  };
  auto ofLayer = [&](const flatbuffers::Vector<uint32_t> *ordinals) {
    return ordinals->Get(binding.index());
  };
  const auto *layers = parts.index->layers();
  switch (binding.kind()) {
  case schema::BindingKind::Buffer: {
    const schema::Buffer &buffer = *source->buffers()->Get(binding.index());
    auto position = uint32_t(bindingValues.size());
    if (buffer.role() == schema::BufferRole::Output)
      (isIds(buffer) ? idBindings : logitBindings).push_back(position);
    if (buffer.role() == schema::BufferRole::Input)
      inputBindings.push_back(
          {position, *inputNamed(buffer.name()->string_view())});
    return bufferAddress(binding.index());
  }
  case schema::BindingKind::Weight:
    return weight(binding.index());
  case schema::BindingKind::LayerWeight:
    return weight(ofLayer(layers->Get(uint32_t(layer))->weights()));
  case schema::BindingKind::LayerState:
    return parts.states->memory(stateOf(binding, layer));
  }
  __builtin_unreachable(); // checkArtifact knows all kinds
}

Status Program::bind(const SymbolValues &values, const InputAddresses &inputs,
                     const OutputAddresses &outputs) {
  if (inputs != inputsAt) {
    inputsAt = inputs;
    ++bindVersion;
    for (auto [position, input] : inputBindings)
      bindingValues[position] = inputs[size_t(input)];
  }
  if (outputs != outputsAt) {
    outputsAt = outputs;
    ++bindVersion;
    for (uint32_t position : logitBindings)
      bindingValues[position] = outputs.logits;
    for (uint32_t position : idBindings)
      bindingValues[position] = outputs.ids;
  }
  if (sizesKnown && values == sizes)
    return Status();
  sizesKnown = false;
  ++bindVersion;
  K3RT_RETURN_IF_ERROR(setSizes(values));
  sizes = values;
  sizesKnown = true;
  return Status();
}

Status Program::setSizes(const SymbolValues &values) {
  auto tooLarge = [] {
    return Status(K3RT_INTERNAL, "a size of the program does not fit");
  };
  for (size_t i = 0; i < terms.size(); ++i) {
    std::optional<int64_t> value = terms[i].evaluate(values);
    if (!value)
      return tooLarge();
    termValues[i] = *value;
  }
  for (size_t i = 0; i < scalarValues.size(); ++i)
    if (scalarTerms[i] != noTerm)
      scalarValues[i] = termValues[scalarTerms[i]];
  for (GroupCode &group : groupCode) {
    int64_t tiles = 0;
    for (uint32_t d = 0; d < group.numDispatches; ++d) {
      DispatchCode &dispatch = dispatchCode[group.firstDispatch + d];
      int64_t product = 1;
      for (int axis = 0; axis < 3; ++axis) {
        uint32_t term = dispatch.gridTerms[axis];
        int64_t count =
            term == noTerm ? 1 : std::max<int64_t>(termValues[term], 1);
        if (__builtin_mul_overflow(product, count, &product) ||
            product > maxTiles)
          return tooLarge();
        dispatch.grid[axis] = uint32_t(count);
      }
      tiles += product;
      if (tiles > maxTiles)
        return tooLarge();
      dispatch.tilesEnd = uint32_t(tiles);
    }
    group.tiles = uint32_t(tiles);
  }
  return Status();
}

uint32_t Program::stateOf(const schema::Binding &binding,
                          int32_t layer) const {
  return parts.index->layers()->Get(uint32_t(layer))->states()->Get(
      binding.index());
}

const schema::Weight *Program::boundWeight(const schema::Binding &binding,
                                        int32_t layer) const {
  if (binding.kind() == schema::BindingKind::Weight)
    return parts.index->weights()->Get(binding.index());
  if (binding.kind() != schema::BindingKind::LayerWeight)
    return nullptr;
  const schema::Layer &owner = *parts.index->layers()->Get(uint32_t(layer));
  return parts.index->weights()->Get(owner.weights()->Get(binding.index()));
}

const schema::State *Program::boundState(const schema::Binding &binding,
                                      int32_t layer) const {
  if (binding.kind() != schema::BindingKind::LayerState)
    return nullptr;
  const schema::Layer &owner = *parts.index->layers()->Get(uint32_t(layer));
  return parts.index->states()->Get(owner.states()->Get(binding.index()));
}

schema::DType Program::bindingType(const DispatchCode &dispatch,
                                   uint32_t number) const {
  const schema::Binding &binding = *dispatch.encoded->bindings()->Get(number);
  if (const schema::Weight *weight = boundWeight(binding, dispatch.layer))
    return weight->dtype();
  if (const schema::State *state = boundState(binding, dispatch.layer))
    return state->dtype();
  return source->buffers()->Get(binding.index())->dtype();
}

std::vector<int64_t> Program::bindingShape(const DispatchCode &dispatch,
                                           uint32_t number) const {
  const schema::Binding &binding = *dispatch.encoded->bindings()->Get(number);
  std::vector<int64_t> shape;
  auto append = [&](const flatbuffers::Vector<int64_t> *sizes) {
    if (sizes)
      shape.insert(shape.end(), sizes->begin(), sizes->end());
  };
  if (const schema::Weight *weight = boundWeight(binding, dispatch.layer)) {
    append(weight->shape());
    return shape;
  }
  if (const schema::State *state = boundState(binding, dispatch.layer)) {
    bool paged = state->kind() == schema::StateKind::KvCache;
    shape.push_back(sizes[paged ? Symbol::pages : Symbol::slots]);
    append(state->shape());
    return shape;
  }
  return bufferShape(binding.index());
}

const void *Program::bufferData(uint32_t buffer) const {
  return bufferAddress(buffer);
}

std::vector<int64_t> Program::bufferShape(uint32_t buffer) const {
  std::vector<int64_t> shape;
  if (const auto *encoded = source->buffers()->Get(buffer)->shape())
    for (const auto *size : *encoded) {
      Term term;
      Status status = decodeTerm(size, symbols.data(), numProgramSymbols, term);
      assert(status.ok() && "checkArtifact decoded it before");
      shape.push_back(term.evaluate(sizes).value_or(0));
    }
  return shape;
}

std::optional<Symbol> Program::bufferDimension(uint32_t buffer,
                                               uint32_t at) const {
  const auto *shape = source->buffers()->Get(buffer)->shape();
  Term term;
  Status status =
      decodeTerm(shape->Get(at), symbols.data(), numProgramSymbols, term);
  assert(status.ok() && "checkArtifact decoded it before");
  if (term.numFactors != 1 || term.mul != 1 || term.add != 0 || term.div != 1)
    return std::nullopt;
  return term.factors[0];
}

std::optional<LayerOutput> Program::layerOutput(int32_t layer) const {
  if (!stream)
    return std::nullopt;
  const auto *scalars = parts.index->layers()->Get(uint32_t(layer))->scalars();
  int64_t slot = scalars && scalars->size() > 1 ? scalars->Get(1) : 0;
  int64_t rows = termValues[streamRows], width = termValues[streamWidth];
  return LayerOutput{static_cast<const float *>(bufferData(*stream)) +
                         slot * rows * width,
                     uint64_t(rows), uint64_t(width)};
}

} // namespace k3rt
