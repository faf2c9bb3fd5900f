//===- Window.cpp - which rows a program run takes -----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/engine/Window.h"

#include <algorithm>

namespace k3rt {

void nextWindow(const std::vector<BatchRow> &batch, const WindowLimits &limits,
                std::vector<WindowPart> &window) {
  window.clear();
  uint32_t rowsLeft = limits.rows, logitsLeft = limits.logitRows;
  for (uint32_t i = 0; i < batch.size(); ++i) {
    const BatchRow &row = batch[i];
    if (row.remaining() == 0)
      continue;
    if (rowsLeft == 0 || window.size() == limits.sequences)
      return;
    WindowPart part;
    part.row = i;
    part.count = uint32_t(std::min<uint64_t>(row.remaining(), rowsLeft));
    if (row.logits == Logits::all) {
      part.count = std::min(part.count, logitsLeft);
      part.logitRows = part.count;
    } else if (row.logits == Logits::last && part.count == row.remaining()) {
      if (logitsLeft == 0)
        part.count -= 1; // the last token waits for the next window
      else
        part.logitRows = 1;
    }
    if (part.count == 0)
      return;
    window.push_back(part);
    rowsLeft -= part.count;
    logitsLeft -= part.logitRows;
    // What is left of this row comes first in the next window.
    if (part.count < row.remaining())
      return;
  }
}

} // namespace k3rt
