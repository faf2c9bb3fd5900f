//===- StepInputs.h - the i32 inputs of a program run --------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_STEPINPUTS_H
#define K3RT_ENGINE_STEPINPUTS_H

#include "runtime/src/artifact/Inputs.h"
#include "runtime/src/base/Memory.h"
#include "runtime/src/engine/Window.h"
#include "runtime/src/state/MemoryPlan.h"

#include <array>

namespace k3rt {

/// What a window needs to know of a sequence.
struct SequenceView {
  uint32_t slot;
  uint64_t length; ///< tokens before this window
  const int32_t *pages;
  uint32_t numPages;
};

/// Memory for the inputs of one program, sized for its largest step.
class StepInputs {
public:
  Status init(const k3::artifact::Program &program, const MemoryPlan &plan);

  const std::array<int32_t *, numInputs> &addresses() const { return inputs; }

  /// Everything that the next window does not write reads as -1.
  void poison();

  /// Adds a part of `count` tokens, `logitRows` of which want logits, the last
  /// ones. begin() first, then every part, then finish().
  void begin();
  void add(const SequenceView &sequence, const int32_t *tokens, uint32_t count,
           uint32_t logitRows);
  void finish();

  /// T, N, C, R of what was added; S, P, M of the plan.
  const SymbolValues &values() const { return counts; }

private:
  int32_t *at(Input input) const { return inputs[size_t(input)]; }

  Allocation memory;
  std::array<int32_t *, numInputs> inputs = {};
  uint32_t chunkRows = 0;
  SymbolValues counts = {};
};

} // namespace k3rt

#endif // K3RT_ENGINE_STEPINPUTS_H
