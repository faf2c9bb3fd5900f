//===- Player.h - runs cases on a GPU and checks what comes out ------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once
#include "test/gpu/Placement.h"

#include <map>

namespace k3::gpu {

struct PlayOptions {
  /// Runs of which every one must leave the same bytes.
  int repeats = 50;
  /// Every argument in memory of exactly its size, for a memory checker; no repeats, no times.
  bool exactMemory = false;
  bool measure = true;
  /// No more repeats are started after this time.
  double secondsOfRepeats = 1.0;
  /// Cases with more memory are made on the device, checked at some places and repeated a few times.
  std::uint64_t wholeBytes = 64u << 20;
  /// Timed runs take turns among copies of the arguments of this size together, so that no cache holds them.
  std::uint64_t rotationBytes = 256u << 20;
};

/// Of one variant of a case.
struct PlayResult {
  bool pass = false;
  std::vector<std::string> failures; ///< one line each; none if passed
  double worst = 0;                  ///< largest error by what was allowed
  double relativeError = 0;          ///< largest error by the largest magnitude expected
  int repeats = 0;
  double seconds = 0; ///< median; 0 = not timed
  /// The same where each run may begin before the one in front has ended; 0 = the kernel cannot.
  double earlySeconds = 0;
  /// The same product by the vendor's library; 0 = it is no such product, or there is no library.
  double librarySeconds = 0;
};

/// Plays the cases of one set; kernels are loaded once.
class Player {
public:
  Player(Gpu &gpu, const CaseSet &set, PlayOptions options) : gpu(gpu), set(set), options(options) {}
  PlayResult play(const Case &c, const Variant &variant);
  /// Kernels as they follow each other in a model: seconds of one after the other, and where each may begin before the one
  /// in front has ended.
  struct RoundTime {
    double seconds = 0, earlySeconds = 0;
  };
  RoundTime timeRound(const std::vector<std::pair<const Case *, const Variant *>> &round);

private:
  Gpu::Function load(std::uint32_t kernel);
  /// Runs the cases whose results `c` reads.
  void produceInputs(const Case &c);

  Gpu &gpu;
  const CaseSet &set;
  PlayOptions options;
  std::map<std::uint32_t, Gpu::Function> functions;
  Produced produced;
};

} // namespace k3::gpu
