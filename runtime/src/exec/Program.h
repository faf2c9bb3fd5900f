//===- Program.h - a program ready to run --------------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// The program of the artifact, written out layer by layer into flat arrays:
// every address is known once the engine is open, except where logits go. What
// depends on the size of a step is computed again only when the size changes.
//===----------------------------------------------------------------------===//
#ifndef K3RT_EXEC_PROGRAM_H
#define K3RT_EXEC_PROGRAM_H

#include "runtime/src/artifact/Inputs.h"
#include "runtime/src/state/StatePool.h"

#include <array>

namespace k3rt {

/// What a program is made of; all addresses are the device's. Everything outlives
/// it.
struct ProgramParts {
  const k3::artifact::Artifact *index = nullptr;
  const std::vector<const void *> *weights = nullptr; ///< per weight
  const StatePool *states = nullptr;
  char *arena = nullptr;
  std::vector<uint64_t> arenaOffsets; ///< per buffer of the program
};

/// Where a step's inputs are.
using InputAddresses = std::array<int32_t *, numInputs>;

/// Where its results go; ids only where a program makes them.
struct OutputAddresses {
  float *logits = nullptr;
  int32_t *ids = nullptr;

  bool operator!=(const OutputAddresses &other) const {
    return logits != other.logits || ids != other.ids;
  }
};

enum class Section : uint8_t { prologue, layer, epilogue };

/// One kernel call.
struct DispatchCode {
  const k3::artifact::Dispatch *encoded = nullptr;
  const k3::artifact::Kernel *kernel = nullptr;
  int32_t layer = -1; ///< -1 outside layers
  uint32_t ordinal = 0; ///< of the kernel
  uint32_t gridTerms[3] = {};
  uint32_t firstBinding = 0, numBindings = 0;
  uint32_t firstScalar = 0, numScalars = 0;
  // Of the current step.
  uint32_t grid[3] = {};
  uint32_t tilesEnd = 0; ///< tiles of the group up to and with this dispatch
};

/// Dispatches that may run at the same time.
struct GroupCode {
  Section section = Section::layer;
  uint32_t position = 0; ///< in its section, or in the layer
  uint32_t firstDispatch = 0, numDispatches = 0;
  int32_t layer = -1; ///< -1 outside layers
  bool endsLayer = false;
  uint32_t tiles = 0; ///< of the current step
};

/// The residual's partial sum after a layer, [rows, width].
struct LayerOutput {
  const float *values;
  uint64_t rows, width;
};

class Program {
public:
  /// `encoded` belongs to an artifact that passed checkArtifact.
  void build(const ProgramParts &parts, const k3::artifact::Program &encoded);

  const k3::artifact::Program &encoded() const { return *source; }

  /// Sets up a step of this size. Error: K3RT_INTERNAL when a size does not fit.
  Status bind(const SymbolValues &values, const InputAddresses &inputs,
              const OutputAddresses &outputs);
  /// Of the current step.
  const SymbolValues &values() const { return sizes; }
  /// Changes whenever bind() changes anything; never 0 after it.
  uint64_t version() const { return bindVersion; }

  const std::vector<GroupCode> &groups() const { return groupCode; }
  /// First group of the epilogue, which a step without logits leaves out.
  size_t epilogueBegin() const { return epilogue; }
  size_t numDispatches() const { return dispatchCode.size(); }
  const DispatchCode &dispatch(size_t i) const { return dispatchCode[i]; }
  void *const *bindings(const DispatchCode &dispatch) const {
    return bindingValues.data() + dispatch.firstBinding;
  }
  const int64_t *scalars(const DispatchCode &dispatch) const {
    return scalarValues.data() + dispatch.firstScalar;
  }

  /// Shape of what a binding is bound to in the current step; an expert group's
  /// is that of the weight.
  std::vector<int64_t> bindingShape(const DispatchCode &dispatch,
                                    uint32_t binding) const;
  k3::artifact::DType bindingType(const DispatchCode &dispatch,
                                  uint32_t binding) const;

  /// For traces: a buffer's address and, for the current step, its shape.
  const void *bufferData(uint32_t buffer) const;
  std::vector<int64_t> bufferShape(uint32_t buffer) const;
  /// What a dimension of a buffer counts, if it counts one thing.
  std::optional<Symbol> bufferDimension(uint32_t buffer, uint32_t at) const;
  /// Nothing if there is no buffer "stream".
  std::optional<LayerOutput> layerOutput(int32_t layer) const;
  /// The ordinal of a state in the artifact, of a binding of a layer.
  uint32_t stateOf(const k3::artifact::Binding &binding, int32_t layer) const;
  const k3::artifact::State &state(uint32_t ordinal) const {
    return *parts.index->states()->Get(ordinal);
  }

private:
  using Groups = flatbuffers::Vector<flatbuffers::Offset<k3::artifact::Group>>;
  static constexpr uint32_t noTerm = UINT32_MAX;

  void addGroups(const Groups *groups, Section section, int32_t layer);
  void addDispatch(const k3::artifact::Dispatch &encoded, int32_t layer);
  uint32_t addTerm(const k3::artifact::Term *encoded);
  void *bindingAddress(const k3::artifact::Binding &binding, int32_t layer);
  void *bufferAddress(uint32_t buffer) const;
  /// The weight or state of a binding; neither for a buffer.
  const k3::artifact::Weight *
  boundWeight(const k3::artifact::Binding &binding, int32_t layer) const;
  const k3::artifact::State *boundState(const k3::artifact::Binding &binding,
                                        int32_t layer) const;
  Status setSizes(const SymbolValues &values);

  ProgramParts parts;
  const k3::artifact::Program *source = nullptr;
  std::array<Symbol, numSymbols> symbols = {};
  size_t numProgramSymbols = 0;

  std::vector<Term> terms;
  std::vector<int64_t> termValues;
  std::vector<DispatchCode> dispatchCode;
  std::vector<GroupCode> groupCode;
  size_t epilogue = 0;
  std::vector<void *> bindingValues;
  std::vector<int64_t> scalarValues;
  std::vector<uint32_t> scalarTerms;
  // Positions in bindingValues.
  std::vector<uint32_t> logitBindings, idBindings;
  std::vector<std::pair<uint32_t, Input>> inputBindings;
  std::optional<uint32_t> stream;
  uint32_t streamRows = noTerm, streamWidth = noTerm;

  uint64_t bindVersion = 0;
  bool sizesKnown = false;
  SymbolValues sizes = {};
  InputAddresses inputsAt = {};
  OutputAddresses outputsAt;
};

} // namespace k3rt

#endif // K3RT_EXEC_PROGRAM_H
