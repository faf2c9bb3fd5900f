//===- MockRuntime.h - a C API whose model the test decides -------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TEST_UNIT_K3RUN_MOCKRUNTIME_H
#define K3_TEST_UNIT_K3RUN_MOCKRUNTIME_H

#include "k3rt/k3rt.h"

#include <functional>
#include <string>
#include <vector>

namespace k3run::test {

/// The model behind the k3rt_* functions of this test binary. Any file called
/// "*.k3a" opens; other names are refused.
struct MockModel {
  /// Logits after a history of tokens; default: all 0.
  std::function<void(const std::vector<int32_t> &, std::vector<float> &)>
      logits;
  std::vector<uint8_t> tokenizer; ///< empty: none
  uint32_t vocab = 4352, hidden = 4, layers = 2, experts = 2;
  int32_t bos = 4096;
  std::vector<int32_t> eos = {4098};
  uint64_t maxContext = 4096;
  uint32_t maxLogitRows = 64;
  /// Values seen by a trace and by read_state, by layer, row and column.
  std::function<float(int, size_t, size_t)> hiddenValue;
  std::function<int32_t(int, size_t, size_t)> expert;
  std::function<float(const std::string &, uint32_t, size_t)> stateValue;

  bool choosesTokens = false; ///< greedy ones, as an engine on a GPU does
  std::string products; ///< not empty: on a GPU, who does large products
  std::string failStep; ///< not empty: steps end with K3RT_NON_FINITE and this

  // What was seen.
  std::vector<std::vector<int32_t>> steps;
  std::vector<int32_t> history; ///< of the newest sequence
  k3rt_engine_options options = {};
  uint64_t offset = 0;
  std::vector<uint64_t> seeds; ///< of the requests submitted to a scheduler
  std::vector<uint32_t> mostDrafted; ///< of the same
  size_t mark = 0;             ///< length of the history at the newest mark
};

/// The model in use; reset() starts a new one with the tokenizer of k3-nano.
MockModel &mock();
void resetMock();

/// Makes the model answer `tokens` one after the other, whatever it is fed one
/// by one, then id `end` for ever. Other logits are 0.
void script(std::vector<int32_t> tokens, int32_t end = 4097);

struct RunResult {
  int exitCode;
  std::string out, err;
};
/// Runs k3-run with these arguments.
RunResult run(const std::vector<std::string> &arguments,
              const std::string &input = "",
              const std::string &programPath = "/nowhere/k3-run",
              bool terminal = false);

/// A file below the test's own temporary folder with this content.
std::string temporaryFile(const std::string &name, const std::string &content);

} // namespace k3run::test

#endif // K3_TEST_UNIT_K3RUN_MOCKRUNTIME_H
