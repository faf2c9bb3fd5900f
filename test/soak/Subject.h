//===- Subject.h - the model under load, and what it should say ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
// What a sequence should be is what it is alone. For the toy model the formulas
// say that, which see one sequence; for an artifact an engine of its own does,
// with one slot, one thread and each sequence in one piece.
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_SOAK_SUBJECT_H
#define K3_TEST_SOAK_SUBJECT_H

#include "k3rt/k3rt.h"
#include "test/unit/Runtime/ToyModel.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace soak {

using Tokens = std::vector<int32_t>;
using Logits = std::vector<float>;
using Word = unsigned long long;

/// What happened and how often, in the order of a report.
using Counts = std::vector<std::pair<const char *, uint64_t>>;

struct Options {
  std::string artifact; ///< empty: the toy model
  /// Logits and states may differ by this much from those alone; 0: not by a bit.
  double tolerance = 0;
  uint32_t threads = 2, seed = 1;
};

class Subject {
public:
  /// Ends the program if the artifact cannot be opened.
  Subject(const Options &options, uint64_t context);
  ~Subject();

  bool isToy() const { return options.artifact.empty(); }
  const Options &chosen() const { return options; }
  /// A folder that goes with the subject.
  std::string folder() const { return files.path(""); }
  uint64_t context() const { return maxContext; }
  /// Any tokens below this do not break the model.
  int32_t plainTokens() const;
  // Sizes in bytes: of a sequence's slot, of a token in the cache, of a sequence
  // of `context` tokens.
  uint64_t slotBytes() const { return stats.slot_bytes; }
  uint64_t rowBytes() const { return stats.page_bytes / stats.page_tokens; }
  uint64_t sequenceBytes() const {
    return slotBytes() + maxContext * rowBytes();
  }
  uint64_t pagesPerSequence() const {
    return (maxContext + stats.page_tokens - 1) / stats.page_tokens;
  }

  /// With threads, context, device and exactness as asked for, and poison.
  k3rt_engine_options engineOptions() const;
  /// An engine with `pages` cache pages, after a step of `rows` rows with logits
  /// of all of them: what steps write to has been written to.
  k3rt_engine *open(k3rt_engine_options engineOptions, uint64_t pages,
                    uint64_t rows) const;
  /// The engine that sequences run alone on.
  k3rt_engine *reference() const { return alone; }

  /// `rows`: logits after each of the last `count` tokens of `history`.
  void checkLogits(const Tokens &history, const float *rows, size_t count);
  /// All states of a sequence that has seen `history`.
  void checkStates(k3rt_engine *engine, k3rt_sequence sequence,
                   const Tokens &history);
  /// The likeliest of the plain tokens after `history`.
  int32_t best(const Tokens &history) {
    return known(history, history.size()).best;
  }
  /// Greedy choices from the end of a prompt of `promptLength` tokens on, of
  /// plain tokens.
  void checkGreedy(const Tokens &history, size_t promptLength);
  /// Logits after each of tokens[first ..), computed now.
  std::vector<Logits> logitsOf(const Tokens &tokens, size_t first);

  /// Memory that what is known takes.
  uint64_t bytes() const { return knownBytes; }
  /// Names of the states of some layers.
  const std::vector<std::pair<uint32_t, const char *>> &stateNames() const {
    return states;
  }

private:
  /// Logits after some tokens: their bits by hash, or all of them.
  struct Known {
    uint64_t hash = 0;
    int32_t best = 0;
    Logits values; ///< only with a tolerance
  };
  const Known &known(const Tokens &history, size_t length);
  /// Learns the logits after every token of `history`.
  void learn(const Tokens &history);
  std::vector<float> statesOf(const Tokens &history);
  std::vector<float> readStates(k3rt_engine *engine, k3rt_sequence sequence);
  bool same(const float *got, const float *want, size_t count) const;

  Options options;
  uint64_t maxContext;
  toy::Folder files;
  std::string path;
  k3rt_engine *alone = nullptr;
  k3rt_stats stats = {};
  uint32_t vocab = 0;
  std::vector<std::pair<uint32_t, const char *>> states;
  std::unordered_map<uint64_t, Known> logits; ///< by hash of the tokens
  std::unordered_map<uint64_t, uint64_t> stateHashes;
  uint64_t knownBytes = 0;
};

/// The message of the last call that failed.
inline std::string errorOf(const k3rt_engine *engine) {
  return k3rt_last_error(engine);
}

k3rt_stats statsOf(k3rt_engine *engine);

/// Memory at times when nothing runs: grows only by what leaks.
class Growth {
public:
  /// Bytes of this process now, without mapped files, without what the subject
  /// has learnt, and without what `engine` keeps of prefixes. `isWarm`: buffers
  /// have found their size, from now on nothing may grow.
  void measure(const Subject &subject, k3rt_engine *engine, bool isWarm);
  uint64_t first() const { return warm; }
  uint64_t most() const { return largest; }

private:
  uint64_t warm = 0, largest = 0;
};

} // namespace soak

#endif // K3_TEST_SOAK_SUBJECT_H
