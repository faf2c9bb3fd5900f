//===- PairMerger.h - byte-pair merging by rank -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3RT_TEXT_PAIRMERGER_H
#define K3RT_TEXT_PAIRMERGER_H

#include "runtime/src/text/TokenizerBlob.h"

#include <vector>

namespace k3rt {

/// Splits pieces of text into base tokens the way tiktoken does: start from
/// single bytes; join the two neighbours whose joined bytes are the token of
/// lowest rank (leftmost on a tie) until no pair is a token. Time O(n log n) in
/// the length of a piece. Holds scratch memory: one per thread.
class PairMerger {
public:
  explicit PairMerger(const TokenizerBlob &vocabulary)
      : vocabulary(vocabulary) {}

  /// Appends the ids of `piece` (shorter than 2^31 bytes) to `ids`.
  void encode(std::string_view piece, std::vector<int32_t> &ids);

private:
  // A part of the piece: the bytes from its index to that of `next`. `rank` is
  // that of this part joined with the next one.
  struct Part {
    uint32_t next, previous, rank;
  };

  void updateRank(std::string_view piece, uint32_t at);

  const TokenizerBlob &vocabulary;
  std::vector<Part> parts;
  // Pairs to join: rank in the high half, index of the left part in the low.
  std::vector<uint64_t> heap;
};

} // namespace k3rt

#endif // K3RT_TEXT_PAIRMERGER_H
