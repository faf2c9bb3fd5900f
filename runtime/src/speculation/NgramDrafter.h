//===- NgramDrafter.h - drafts from what the sequence has said before ----===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// Prompt lookup: where the last few tokens have occurred before, what followed
// them then is likely to follow now. Costs no model and next to no time.
//===----------------------------------------------------------------------===//
#ifndef K3RT_SPECULATION_NGRAMDRAFTER_H
#define K3RT_SPECULATION_NGRAMDRAFTER_H

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace k3rt {

class NgramDrafter {
public:
  /// `longest` and `shortest`: how many tokens must agree, the longest match
  /// first. 1 <= shortest <= longest.
  explicit NgramDrafter(uint32_t longest = 4, uint32_t shortest = 2);

  /// Appends tokens of the sequence (prompt or answer).
  void observe(const int32_t *tokens, uint64_t count);

  /// Up to `count` tokens that may follow, as they did the latest earlier
  /// occurrence; none if there is none. Fewer drafts are made, and short ones, while most of
  /// the last ones of as long a match were rejected.
  std::vector<int32_t> draft(uint32_t count);

  /// How many tokens of the last draft the model has confirmed.
  void report(uint32_t tokens, uint32_t accepted);

private:
  uint64_t hashEndingAt(uint64_t end, uint32_t length) const;
  bool equalBefore(uint64_t a, uint64_t b, uint32_t length) const;

  uint32_t longest, shortest;
  std::vector<int32_t> history;
  /// Per length, from `shortest`: where the n-gram with a hash last ended,
  /// leaving out the one at the very end of the history.
  std::vector<std::unordered_map<uint64_t, uint64_t>> lastEnd;
  /// What drafts by matches of one length were worth.
  struct Record {
    /// Share of the tokens that were accepted lately, from 0 to 1.
    double acceptance;
    /// Chances to let pass, now and after the next draft that is a try.
    uint32_t pause, nextPause;
    uint32_t mostTokens; ///< of the next draft: more while all are right
  };
  std::vector<Record> records; ///< per length, from `shortest`
  uint32_t drafted = 0;        ///< the record that the last draft belongs to
};

} // namespace k3rt

#endif // K3RT_SPECULATION_NGRAMDRAFTER_H
