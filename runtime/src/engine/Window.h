//===- Window.h - which rows a program run takes -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_ENGINE_WINDOW_H
#define K3RT_ENGINE_WINDOW_H

#include "runtime/src/engine/Sampling.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace k3rt {

/// After which tokens of a row logits are wanted.
enum class Logits : uint8_t { none, last, all };

/// One row of a batch on its way through the engine.
struct BatchRow {
  uint32_t sequence = 0; ///< index in the engine
  const int32_t *tokens = nullptr;
  uint64_t numTokens = 0;
  Logits logits = Logits::last;
  const RowSampling *sampling = nullptr; ///< the device chooses what follows
  uint32_t banSet = 0;
  uint64_t done = 0; ///< tokens that have been run

  uint64_t remaining() const { return numTokens - done; }
  uint64_t numLogitRows() const {
    return logits == Logits::all ? numTokens
                                 : logits == Logits::last && numTokens != 0;
  }
};

/// Tokens [row.done, row.done + count) of one batch row.
struct WindowPart {
  uint32_t row = 0; ///< index in the batch
  uint32_t count = 0;
  uint32_t logitRows = 0; ///< the last ones of the part
};

struct WindowLimits {
  uint32_t rows = 0, sequences = 0, logitRows = 0; ///< each at least 1
};

/// Fills `window` with the next parts of `batch`, in order, within the limits;
/// empty when all tokens have been run. Since rows are taken in order, the
/// logits of windows follow each other without gaps.
void nextWindow(const std::vector<BatchRow> &batch, const WindowLimits &limits,
                std::vector<WindowPart> &window);

} // namespace k3rt

#endif // K3RT_ENGINE_WINDOW_H
