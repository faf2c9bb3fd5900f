//===- StepInputs.h - the i32 inputs of a program run --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_STEPINPUTS_H
#define K3RT_ENGINE_STEPINPUTS_H

#include "runtime/src/engine/Sampling.h"
#include "runtime/src/engine/Window.h"
#include "runtime/src/exec/Program.h"

namespace k3rt {

/// What a window needs to know of a sequence.
struct SequenceView {
  uint32_t slot;
  uint64_t length; ///< tokens before this window
  const int32_t *pages;
  uint32_t numPages;
};

/// Memory for the inputs of one program, sized for its largest step. On a GPU
/// they are sent in one piece, one input close behind the other, so that where
/// they are depends on the size of the step alone.
class StepInputs {
public:
  /// `device` outlives the inputs. `banned`: the sets of tokens, which are not
  /// of one step; null if the program has none.
  Status init(const k3::artifact::Program &program, const MemoryPlan &plan,
              Device &device, int32_t *banned);

  /// Where they are put together, in the host's memory.
  const InputAddresses &addresses() const { return inputs; }
  /// Where kernels find those of a step of this size.
  InputAddresses addressesFor(const SymbolValues &values) const;

  /// Everything that the next window does not write reads as -1.
  void poison();

  /// Adds a part of `count` tokens, `logitRows` of which want logits, the last
  /// ones. begin() first, then every part, then finish(). `sampling`: for each
  /// of these, what is done with its logits; null: nothing.
  void begin();
  void add(const SequenceView &sequence, const int32_t *tokens, uint32_t count,
           uint32_t logitRows, const SamplingWords *sampling = nullptr);
  void finish();
  /// Where kernels find them: sends them there if the host's memory is not what
  /// they see.
  InputAddresses send();

  /// T, N, C, R of what was added; S, P, M of the plan.
  const SymbolValues &values() const { return counts; }

private:
  int32_t *at(Input input) const { return inputs[size_t(input)]; }

  Device *device = nullptr;
  Allocation memory;
  InputAddresses inputs = {};
  int32_t *bannedSets = nullptr; ///< on the device
  DeviceBuffer packed, sent; ///< on the host and on the device, if it is a GPU
  uint32_t chunkRows = 0;
  SymbolValues counts = {};
};

} // namespace k3rt

#endif // K3RT_ENGINE_STEPINPUTS_H
